/* The controller's side of the page, called from Python through ctypes, which lets other threads run meanwhile. */
#define _GNU_SOURCE
#include "still.h"

#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#define PUBLIC __attribute__((visibility("default")))

/* Results of soulslab_clock_wait. */
enum { RUNS, PARKED, STILL, CROWDED, LOOPED };
/* How long the game may run before the first attempt to prove that it stands; each further attempt comes half as late
 * again. An attempt that fails slows the game down by 10 %, so it comes late where the last step ended without a proof. */
#define FIRST_PROOF_NS (CLOCK_MS / 10)
#define UNLIKELY_PROOF_NS CLOCK_MS
/* How long the game may run before its threads are sampled, and the shortest time until the next samples. A game that has
 * run for long is loading, and frequent samples would take a fifth of its time: the pause grows to this share of the time
 * that it has run. */
#define FIRST_SAMPLE_NS (2 * CLOCK_MS)
#define NEXT_SAMPLE_NS (CLOCK_MS / 5)
#define SAMPLE_SHARE 8
/* How long a thread may wait for a lock that a thread with a later turn holds. */
#define STUCK_TURN_NS (250 * CLOCK_MS)
/* How long the events of the gamepad may take to the queues of the game, which may have ended or be stopped. */
#define PAD_NS (20 * CLOCK_MS)
/* No generation at rest is odd. */
#define NO_GENERATION 1u

int64_t clock_real_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * CLOCK_SECOND + now.tv_nsec;
}

long clock_call(long number, ...)
{
    va_list list;
    long arguments[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    long result =
        syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    return result == -1 ? -errno : result;
}

/* All that return an int give 0 or a negative error number, unless they say otherwise. */
int soulslab_clock_create(int is_held);
void soulslab_clock_fix_start(struct clock_page *page, int64_t epoch_ns, int64_t boot_ns, uint64_t random_seed);
int soulslab_clock_map(int fd, struct clock_page **mapped);
void soulslab_clock_unmap(struct clock_page *page);
int soulslab_clock_own(struct clock_page *page, int fd, int on_orphan);
void soulslab_clock_disown(struct clock_page *page, int fd);
int soulslab_clock_owner(struct clock_page *page);
int soulslab_clock_connect_pad(struct clock_page *page);
void soulslab_clock_set_pad(struct clock_page *page, const struct clock_pad *pad);
uint64_t soulslab_clock_key(struct clock_page *page);
void soulslab_clock_set_boundary(struct clock_page *page, uint32_t boundary, uint32_t spin_reads);
void soulslab_clock_publish(struct clock_page *page, int64_t speed, int64_t jump_ns, int64_t run_ns);
int64_t soulslab_clock_now(struct clock_page *page, int64_t *started_ns, int64_t *speed);
uint64_t soulslab_clock_time_reads(struct clock_page *page);
uint64_t soulslab_clock_counter_at(struct clock_page *page);
uint64_t soulslab_clock_take_loop(struct clock_page *page);
int soulslab_clock_wait(struct clock_page *page, int pid, int64_t timeout_ns);
int soulslab_clock_step(struct clock_page *page, int pid, int64_t jump_ns, int64_t timeout_ns);
int soulslab_clock_parked(struct clock_page *page, int pid, int *tids, int n);
void soulslab_clock_set_servers(struct clock_page *page, const int *pids, int n);
int soulslab_clock_is_still(struct clock_page *page, int pid);

static int64_t now_of(clockid_t clock)
{
    struct timespec now;
    /* Not every kernel has every clock. */
    if (clock_gettime(clock, &now) != 0)
        return 0;
    return now.tv_sec * CLOCK_SECOND + now.tv_nsec;
}

/* Make a page whose time is held at 0, or runs at 1x from now. Returns its file descriptor. */
PUBLIC int soulslab_clock_create(int is_held)
{
    int fd = memfd_create("soulslab-clock", MFD_CLOEXEC);
    struct clock_page *page;
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, sizeof *page) != 0 ||
        (page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
        int error = errno;
        close(fd);
        return -error;
    }
    if (getrandom(&page->key, sizeof page->key, 0) != sizeof page->key)
        page->key = (uint64_t)clock_real_ns() ^ ((uint64_t)getpid() << 40);
    /* The program sees each clock go on from where it stands. */
    for (clockid_t clock = 0; clock < CLOCK_N_IDS; clock++)
        page->base_ns[clock] = now_of(clock);
    page->lines[1] = (struct clock_line){clock_real_ns(), 0, CLOCK_FOREVER, is_held ? 0 : CLOCK_UNIT_SPEED};
    atomic_store(&page->started_ns, -1);
    atomic_store(&page->boundary, CLOCK_BOUNDARY_SLEEP);
    atomic_store(&page->spin_reads, UINT32_MAX);
    /* Not 0, which is the generation of threads that are not parked. */
    atomic_store(&page->generation, 2);
    page->layout = CLOCK_LAYOUT;
    page->magic = CLOCK_MAGIC;
    munmap(page, sizeof *page);
    return fd;
}

/* Before the game is started: let its clocks begin at these times, and its random sources be functions of the seed. */
PUBLIC void soulslab_clock_fix_start(struct clock_page *page, int64_t epoch_ns, int64_t boot_ns, uint64_t random_seed)
{
    for (clockid_t clock = 0; clock < CLOCK_N_IDS; clock++)
        page->base_ns[clock] = boot_ns;
    page->base_ns[CLOCK_REALTIME] = page->base_ns[CLOCK_REALTIME_COARSE] = epoch_ns;
    page->base_ns[CLOCK_REALTIME_ALARM] = page->base_ns[CLOCK_TAI] = epoch_ns;
    page->random_seed = random_seed;
    page->has_random_seed = 1;
}

PUBLIC int soulslab_clock_map(int fd, struct clock_page **mapped)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return -errno;
    if (about.st_size < (off_t)sizeof(struct clock_page))
        return -EPROTO;
    struct clock_page *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (page == MAP_FAILED)
        return -errno;
    if (page->magic != CLOCK_MAGIC || page->layout != CLOCK_LAYOUT) {
        munmap(page, sizeof *page);
        return -EPROTO;
    }
    *mapped = page;
    clock_open_files(page);
    return 0;
}

PUBLIC void soulslab_clock_unmap(struct clock_page *page)
{
    clock_close_files(page);
    munmap(page, sizeof *page);
}

/* Become the controller; -EAGAIN if there is one. */
PUBLIC int soulslab_clock_own(struct clock_page *page, int fd, int on_orphan)
{
    struct flock lock = clock_owner_lock(F_WRLCK);
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0)
        return errno == EACCES ? -EAGAIN : -errno;
    atomic_store(&page->n_watchers, 0); /* one that was killed while it waited is still counted */
    clock_set_pad(page, &(struct clock_pad){0});
    atomic_store(&page->on_orphan, (uint32_t)on_orphan);
    atomic_store(&page->owner, getpid());
    return 0;
}

PUBLIC void soulslab_clock_disown(struct clock_page *page, int fd)
{
    struct flock lock = clock_owner_lock(F_UNLCK);
    atomic_store(&page->owner, 0);
    fcntl(fd, F_OFD_SETLK, &lock);
}

PUBLIC int soulslab_clock_owner(struct clock_page *page)
{
    return atomic_load(&page->owner);
}

/* Connect a gamepad, at rest; returns whether there was one. */
PUBLIC int soulslab_clock_connect_pad(struct clock_page *page)
{
    return (int)atomic_exchange(&page->has_pad, 1);
}

PUBLIC void soulslab_clock_set_pad(struct clock_page *page, const struct clock_pad *pad)
{
    clock_set_pad(page, pad);
    if (atomic_load(&page->has_pad_reader) == 0)
        return;
    /* The helper in the game puts the events into its queues. */
    int64_t deadline_ns = clock_real_ns() + PAD_NS;
    uint32_t n_pads = atomic_load(&page->n_pads), n_reported;
    clock_futex(&page->generation, FUTEX_WAKE, INT_MAX, NULL);
    while ((n_reported = atomic_load(&page->n_pads_reported)) != n_pads && clock_real_ns() < deadline_ns)
        clock_futex_wait(&page->n_pads_reported, n_reported, CLOCK_MS);
}

PUBLIC uint64_t soulslab_clock_key(struct clock_page *page)
{
    return page->key;
}

PUBLIC void soulslab_clock_set_boundary(struct clock_page *page, uint32_t boundary, uint32_t spin_reads)
{
    atomic_store(&page->spin_reads, spin_reads);
    atomic_store(&page->boundary, boundary);
}

/* Arrange turns for a change that ends the waits of several threads at once. Not under Wine: between two turns stands a
 * proof that the game stands, and with Wine's many processes it takes 3 ms. */
static void arrange_turns(struct clock_page *page, int64_t jump_ns)
{
    struct clock_moment moment;
    clock_look(page, &moment);
    uint32_t n_slots = atomic_load(&page->n_slots);
    int n_due = 0;
    bool may_have_turns = moment.is_frozen && jump_ns > 0 && atomic_load(&page->wine_server) == 0;
    for (uint32_t i = 0; i < n_slots && may_have_turns; i++) {
        struct clock_slot *slot = &page->slots[i];
        if (atomic_load(&slot->tid) != 0 && atomic_load(&slot->parked) == moment.generation &&
            atomic_load(&slot->until_ns) <= moment.virtual_ns + jump_ns)
            n_due++;
    }
    atomic_store(&page->turned_ns, moment.real_ns);
    atomic_store(&page->ordered, n_due > 1 ? moment.generation + 2 : NO_GENERATION);
}

/* Let the threads go on that wait for their turns of a change before. */
static void end_turns(struct clock_page *page)
{
    uint32_t n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots; i++)
        if (atomic_load(&page->slots[i].parked) == CLOCK_DUE)
            clock_futex(&page->slots[i].parked, FUTEX_WAKE, INT_MAX, NULL);
}

/* Start a new line (clock_publish). After a jump of a clock that stands, soulslab_clock_wait has to be called: threads wait
 * for their turns. */
PUBLIC void soulslab_clock_publish(struct clock_page *page, int64_t speed, int64_t jump_ns, int64_t run_ns)
{
    arrange_turns(page, speed == 0 ? jump_ns : 0);
    clock_publish(page, speed, jump_ns, run_ns);
    end_turns(page);
}

/* Game time; also when the game started (-1: not yet) and the speed now. */
PUBLIC int64_t soulslab_clock_now(struct clock_page *page, int64_t *started_ns, int64_t *speed)
{
    struct clock_moment moment;
    clock_look(page, &moment);
    *started_ns = atomic_load(&page->started_ns);
    *speed = moment.is_frozen ? 0 : moment.speed;
    return moment.virtual_ns;
}

/* How often the threads of the game have read the time while it stood. */
PUBLIC uint64_t soulslab_clock_time_reads(struct clock_page *page)
{
    uint64_t n_reads = 0;
    uint32_t n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots; i++)
        n_reads += atomic_load_explicit(&page->slots[i].n_reads, memory_order_relaxed);
    return n_reads;
}

/* The address of a loop that waits by the counter of the processor; 0 if none was found. */
PUBLIC uint64_t soulslab_clock_counter_at(struct clock_page *page)
{
    return atomic_load(&page->counter_at);
}

/* The address of a loop that was held because of its duration, once; 0 if there is none. */
PUBLIC uint64_t soulslab_clock_take_loop(struct clock_page *page)
{
    return atomic_exchange(&page->loop_at, 0);
}

/* Let the thread with the earliest deadline go on; false if none waits for its turn. */
static bool begin_turn(struct clock_page *page)
{
    uint32_t n_slots = atomic_load(&page->n_slots);
    struct clock_slot *first = NULL;
    for (uint32_t i = 0; i < n_slots; i++) {
        struct clock_slot *slot = &page->slots[i];
        if (atomic_load(&slot->parked) == CLOCK_DUE && !clock_has_ended(atomic_load(&slot->pid)) &&
            (first == NULL || atomic_load(&slot->until_ns) < atomic_load(&first->until_ns)))
            first = slot;
    }
    uint32_t due = CLOCK_DUE;
    if (first == NULL || !atomic_compare_exchange_strong(&first->parked, &due, 0))
        return false;
    atomic_store(&page->turned_ns, clock_real_ns());
    clock_futex(&first->parked, FUTEX_WAKE, INT_MAX, NULL);
    return true;
}

/* Return whether this turn has lasted so long that its thread may wait for one with a later turn. */
static bool is_turn_stuck(struct clock_page *page)
{
    return clock_real_ns() - atomic_load(&page->turned_ns) > STUCK_TURN_NS;
}

/* Return RUNS, or the reason for which the game stands at this generation. PARKED: all of its threads wait for time, or
 * for another of its threads. STILL: it was proven that none of its threads can run. */
static int judge(struct clock_page *page, int pid, uint32_t generation, bool is_time_for_proof)
{
    struct clock_threads threads;
    uint32_t n_claims = atomic_load(&page->n_claims);
    int state = clock_find_threads(page, generation, &threads);
    bool is_turn = threads.n_due > 0, is_waiting = state == CLOCK_THREADS_WAIT;
    /* Between two turns of a step, threads that wait for files are not looked at. */
    if (is_turn)
        is_waiting = state == CLOCK_THREADS_WAIT_FOR_FILES || is_waiting || is_turn_stuck(page);
    /* One of them may have created a thread before it was seen to wait. */
    if (is_waiting && clock_are_blocked(page, &threads) && atomic_load(&page->n_claims) == n_claims &&
        atomic_load(&page->generation) == generation)
        return PARKED;
    if (state == CLOCK_THREADS_WAIT_FOR_FILES && !atomic_load(&page->has_servers))
        return PARKED;
    if ((state == CLOCK_THREADS_WAIT_FOR_FILES || is_time_for_proof) && clock_is_still(page, pid, generation))
        return STILL;
    return RUNS;
}

/* Sample the thread that runs on while time stands. */
static void sample(struct clock_page *page, uint32_t generation)
{
    struct clock_threads threads;
    if (clock_find_threads(page, generation, &threads) != CLOCK_THREADS_RUN)
        clock_sample(&threads);
}

/* Wait until time stands and the game does, too. Returns RUNS when the timeout is over. CROWDED: it has more threads
 * than there are slots, so the others may run. LOOPED: it stands, and there is a loop to report
 * (soulslab_clock_take_loop). */
PUBLIC int soulslab_clock_wait(struct clock_page *page, int pid, int64_t timeout_ns)
{
    int64_t started_ns = clock_real_ns(), deadline_ns = started_ns + timeout_ns;
    int64_t first_proof_ns = atomic_load(&page->needs_proof) ? FIRST_PROOF_NS : UNLIKELY_PROOF_NS;
    int64_t proof_ns = started_ns + first_proof_ns, sample_ns = started_ns + FIRST_SAMPLE_NS;
    int64_t turn_ns = started_ns;
    int result = RUNS;
    atomic_fetch_add(&page->n_watchers, 1);
    for (;;) {
        uint32_t arrivals = atomic_load(&page->arrivals);
        struct clock_moment moment;
        clock_look(page, &moment);
        if (moment.is_frozen)
            result = judge(page, pid, moment.generation, moment.real_ns >= proof_ns);
        int64_t now_ns = clock_real_ns();
        if (result != RUNS && begin_turn(page)) {
            result = RUNS;
            turn_ns = now_ns;
            proof_ns = now_ns + first_proof_ns;
            sample_ns = now_ns + FIRST_SAMPLE_NS;
            continue;
        }
        if (result != RUNS || now_ns >= deadline_ns)
            break;
        if (moment.real_ns >= proof_ns)
            proof_ns = now_ns + (now_ns - started_ns) / 2;
        if (moment.is_frozen && now_ns >= sample_ns) {
            sample(page, moment.generation);
            int64_t pause_ns = (now_ns - turn_ns) / SAMPLE_SHARE;
            sample_ns = now_ns + (pause_ns > NEXT_SAMPLE_NS ? pause_ns : NEXT_SAMPLE_NS);
        }
        int64_t next_ns = proof_ns < sample_ns ? proof_ns : sample_ns;
        int64_t until_ns = moment.is_frozen && next_ns < deadline_ns ? next_ns : deadline_ns;
        if (until_ns > now_ns)
            clock_futex_wait(&page->arrivals, arrivals, until_ns - now_ns);
    }
    if (result != RUNS)
        atomic_store(&page->needs_proof, result == STILL);
    atomic_fetch_sub(&page->n_watchers, 1);
    if (result != RUNS && atomic_load(&page->is_crowded))
        return CROWDED;
    return result != RUNS && atomic_load(&page->loop_at) ? LOOPED : result;
}

/* Let so much game time pass at once, and wait. */
PUBLIC int soulslab_clock_step(struct clock_page *page, int pid, int64_t jump_ns, int64_t timeout_ns)
{
    soulslab_clock_publish(page, 0, jump_ns, CLOCK_FOREVER);
    return soulslab_clock_wait(page, pid, timeout_ns);
}

/* Find the threads of a process that wait for time in the library; returns how many there are, `n` at most. */
PUBLIC int soulslab_clock_parked(struct clock_page *page, int pid, int *tids, int n)
{
    int n_found = 0;
    uint32_t generation = atomic_load(&page->generation), n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots && n_found < n; i++) {
        struct clock_slot *slot = &page->slots[i];
        if (atomic_load(&slot->pid) == pid && atomic_load(&slot->parked) == generation)
            tids[n_found++] = atomic_load(&slot->tid);
    }
    return n_found;
}

/* Say which processes the game may wait for that do not have the library: its X server. With n < 0 that is unknown, and
 * then nothing proves that it stands but that it waits for time. */
PUBLIC void soulslab_clock_set_servers(struct clock_page *page, const int *pids, int n)
{
    for (int i = 0; i < CLOCK_N_SERVERS; i++)
        atomic_store(&page->servers[i], i < n ? pids[i] : 0);
    atomic_store(&page->has_servers, n >= 0 && n <= CLOCK_N_SERVERS);
}

/* Return whether all threads of the game and of its servers sleep, so that nothing happens until time gets on. */
PUBLIC int soulslab_clock_is_still(struct clock_page *page, int pid)
{
    struct clock_moment moment;
    clock_look(page, &moment);
    return moment.is_frozen && clock_is_still(page, pid, moment.generation);
}
