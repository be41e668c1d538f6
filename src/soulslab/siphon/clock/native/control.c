/* The controller's side of the page, called from Python through ctypes, which lets other threads run meanwhile. */
#define _GNU_SOURCE
#include "still.h"

#include <stddef.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>

#define PUBLIC __attribute__((visibility("default")))

enum { PARKED, MAIN_RUNS, OTHERS_RUN, STILL };
/* How long the game may take to park before we look whether it stands without; each look comes half as late again. */
#define FIRST_LOOK_NS (CLOCK_MS / 10)

int64_t clock_real_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * CLOCK_SECOND + now.tv_nsec;
}

/* All that return an int give 0 or a negative error number, unless they say otherwise. */
int soulslab_clock_create(void);
int soulslab_clock_map(int fd, struct clock_page **mapped);
void soulslab_clock_unmap(struct clock_page *page);
int soulslab_clock_own(struct clock_page *page, int fd, int on_orphan);
void soulslab_clock_disown(struct clock_page *page, int fd);
int soulslab_clock_owner(struct clock_page *page);
uint64_t soulslab_clock_key(struct clock_page *page);
void soulslab_clock_set_spin(struct clock_page *page, uint32_t n_reads, uint32_t n_turns);
void soulslab_clock_publish(struct clock_page *page, int64_t speed, int64_t jump_ns, int64_t run_ns);
int64_t soulslab_clock_now(struct clock_page *page, int64_t *started_ns, int64_t *speed);
int soulslab_clock_wait(struct clock_page *page, int pid, int64_t timeout_ns);
int soulslab_clock_step(struct clock_page *page, int pid, int64_t jump_ns, int64_t timeout_ns);
int soulslab_clock_running(struct clock_page *page, int pid, int *tids, int n);
void soulslab_clock_ignore(struct clock_page *page, int pid, int tid);
void soulslab_clock_set_servers(struct clock_page *page, const int *pids, int n);

static int64_t now_of(clockid_t clock)
{
    struct timespec now;
    /* Not every kernel has every clock. */
    if (clock_gettime(clock, &now) != 0)
        return 0;
    return now.tv_sec * CLOCK_SECOND + now.tv_nsec;
}

/* Make a page that runs at 1x from now. Returns its file descriptor. */
PUBLIC int soulslab_clock_create(void)
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
    page->lines[1] = (struct clock_line){clock_real_ns(), 0, CLOCK_FOREVER, CLOCK_UNIT_SPEED};
    atomic_store(&page->started_ns, -1);
    atomic_store(&page->spin_reads, UINT32_MAX);
    atomic_store(&page->spin_turns, UINT32_MAX);
    /* Not 0, which is the generation of threads that are not parked. */
    atomic_store(&page->generation, 2);
    page->layout = CLOCK_LAYOUT;
    page->magic = CLOCK_MAGIC;
    munmap(page, sizeof *page);
    return fd;
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
    return 0;
}

PUBLIC void soulslab_clock_unmap(struct clock_page *page)
{
    munmap(page, sizeof *page);
}

/* Become the controller; -EAGAIN if there is one. */
PUBLIC int soulslab_clock_own(struct clock_page *page, int fd, int on_orphan)
{
    struct flock lock = clock_owner_lock(F_WRLCK);
    if (fcntl(fd, F_OFD_SETLK, &lock) != 0)
        return errno == EACCES ? -EAGAIN : -errno;
    atomic_store(&page->n_watchers, 0); /* one that was killed while it waited is still counted */
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

PUBLIC uint64_t soulslab_clock_key(struct clock_page *page)
{
    return page->key;
}

PUBLIC void soulslab_clock_set_spin(struct clock_page *page, uint32_t n_reads, uint32_t n_turns)
{
    atomic_store(&page->spin_reads, n_reads);
    atomic_store(&page->spin_turns, n_turns);
}

PUBLIC void soulslab_clock_publish(struct clock_page *page, int64_t speed, int64_t jump_ns, int64_t run_ns)
{
    clock_publish(page, speed, jump_ns, run_ns);
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

/* Whether all threads of the process that wait for time have found out that it is not there yet. */
static int look_around(struct clock_page *page, int pid, uint32_t generation)
{
    uint32_t n_slots = atomic_load(&page->n_slots);
    bool is_main_parked = false, is_other_running = false;
    int32_t wine_server = atomic_load(&page->wine_server);
    for (uint32_t i = 0; i < n_slots; i++) {
        struct clock_slot *slot = &page->slots[i];
        int32_t tid = atomic_load(&slot->tid), owner = atomic_load(&slot->pid);
        /* Wine's server may be about to wake a thread of the game, whose timers it keeps. */
        if (tid == 0 || owner == 0 || (owner != pid && owner != wine_server))
            continue;
        bool is_done = atomic_load(&slot->parked) == generation || atomic_load(&slot->is_ignored);
        if (tid == pid)
            is_main_parked = is_done;
        else if (!is_done)
            is_other_running = true;
    }
    return !is_main_parked ? MAIN_RUNS : is_other_running ? OTHERS_RUN : PARKED;
}

/* Wait until time stands and all threads of the process that wait for time are parked (PARKED), or until nothing of the
 * game can run at all (STILL). Returns what is missing when the timeout is over. */
PUBLIC int soulslab_clock_wait(struct clock_page *page, int pid, int64_t timeout_ns)
{
    int64_t started_ns = clock_real_ns(), deadline_ns = started_ns + timeout_ns, look_ns = started_ns + FIRST_LOOK_NS;
    int result;
    atomic_fetch_add(&page->n_watchers, 1);
    for (;;) {
        uint32_t arrivals = atomic_load(&page->arrivals);
        struct clock_moment moment;
        clock_look(page, &moment);
        result = moment.is_frozen ? look_around(page, pid, moment.generation) : MAIN_RUNS;
        if (result == PARKED || moment.real_ns >= deadline_ns)
            break;
        if (moment.is_frozen && moment.real_ns >= look_ns) {
            if (clock_is_still(page, pid, moment.generation)) {
                result = STILL;
                break;
            }
            int64_t now_ns = clock_real_ns();
            look_ns = now_ns + (now_ns - started_ns) / 2;
        }
        int64_t until_ns = moment.is_frozen && look_ns < deadline_ns ? look_ns : deadline_ns;
        int64_t wait_ns = until_ns - clock_real_ns();
        if (wait_ns > 0)
            clock_futex_wait(&page->arrivals, arrivals, wait_ns);
    }
    atomic_fetch_sub(&page->n_watchers, 1);
    return result;
}

/* Let so much game time pass at once, and wait. */
PUBLIC int soulslab_clock_step(struct clock_page *page, int pid, int64_t jump_ns, int64_t timeout_ns)
{
    clock_publish(page, 0, jump_ns, CLOCK_FOREVER);
    return soulslab_clock_wait(page, pid, timeout_ns);
}

/* The threads that are not parked; returns how many there are, `n` at most. */
PUBLIC int soulslab_clock_running(struct clock_page *page, int pid, int *tids, int n)
{
    int n_found = 0;
    uint32_t generation = atomic_load(&page->generation), n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots && n_found < n; i++) {
        struct clock_slot *slot = &page->slots[i];
        int32_t tid = atomic_load(&slot->tid);
        if (tid != 0 && atomic_load(&slot->pid) == pid && atomic_load(&slot->parked) != generation &&
            !atomic_load(&slot->is_ignored))
            tids[n_found++] = tid;
    }
    return n_found;
}

/* Do not wait for this thread until it parks again. */
PUBLIC void soulslab_clock_ignore(struct clock_page *page, int pid, int tid)
{
    for (uint32_t i = 0; i < CLOCK_N_SLOTS; i++)
        if (atomic_load(&page->slots[i].tid) == tid && atomic_load(&page->slots[i].pid) == pid)
            atomic_store(&page->slots[i].is_ignored, 1);
}

/* Say which processes the game may wait for that do not have the library: its X server. With n < 0 that is unknown, and
 * then nothing proves that it stands but that it waits for time. */
PUBLIC void soulslab_clock_set_servers(struct clock_page *page, const int *pids, int n)
{
    for (int i = 0; i < CLOCK_N_SERVERS; i++)
        atomic_store(&page->servers[i], i < n ? pids[i] : 0);
    atomic_store(&page->has_servers, n >= 0 && n <= CLOCK_N_SERVERS);
}
