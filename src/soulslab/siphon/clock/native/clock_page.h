/* The page of memory that the game and its controller share: what time it is in the game, and who waits for it.
 *
 * Game time is a straight line, virtual = virtual_ns + speed * (real - real_ns), that ends at limit_ns. Publishing a new
 * line is the only change there is: pause is speed 0, a step is a line of speed 0 that starts further on.
 *
 * Two things must never happen: that time goes back, and that a controller which dies in the middle of a change leaves
 * the game hanging. So there are two lines, and `generation` says which of them is valid. An even generation is at
 * rest. A writer makes it odd first, and no reader goes on while it is odd; only then does the writer look at the real
 * clock, so the new line starts no earlier than anything that was ever read from the old one. The old line stays whole
 * until the generation is even again, so readers who wait for a writer in vain take the change back (clock_await_writer).
 */
#ifndef SOULSLAB_CLOCK_PAGE_H
#define SOULSLAB_CLOCK_PAGE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#ifdef _WIN32
#include <windows.h>
#else
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#endif

#define CLOCK_MAGIC 0x4b4c4353u
#define CLOCK_LAYOUT 12u
#define CLOCK_N_SLOTS 4096
#define CLOCK_N_PROCESSES 128
#define CLOCK_N_SERVERS 8
#define CLOCK_N_PADS 64 /* a power of 2 */
#define CLOCK_N_IDS 12 /* CLOCK_REALTIME ... CLOCK_TAI, <linux/time.h> */
#define CLOCK_FOREVER INT64_MAX
#define CLOCK_UNIT_SPEED ((int64_t)1 << 32)
#define CLOCK_MS 1000000ll
#define CLOCK_SECOND 1000000000ll
/* A state of the gamepad that must be seen stays for so long: a game may read it several times in a frame. */
#define CLOCK_SEEN_NS (4 * CLOCK_MS)
/* States of a slot beside the generations, of which those at rest are even. */
#define CLOCK_PARKING 1u
#define CLOCK_ALERTED 3u
#define CLOCK_DUE 5u
#define CLOCK_STARTING 7u
/* The name of our thread in the game (helper.c), as the kernel shows it. */
#define CLOCK_HELPER_NAME "soulslab-clock"
/* Samples a thread that runs on (spin.c); one of the last, which programs hardly use. */
#define CLOCK_SAMPLE_SIGNAL 62
/* A writer needs microseconds; one that takes this long is stopped or dead. */
#define CLOCK_WRITER_NS (50 * CLOCK_MS)

enum clock_orphan { CLOCK_ORPHAN_END, CLOCK_ORPHAN_RUN, CLOCK_ORPHAN_PAUSED };

struct clock_line {
    _Atomic int64_t real_ns;    /* CLOCK_MONOTONIC where the line starts */
    _Atomic int64_t virtual_ns; /* game time there */
    _Atomic int64_t limit_ns;   /* game time where it ends */
    _Atomic int64_t speed;      /* in units of 2**-32: integers give the same result on both sides */
};

/* Where a thread that never sleeps is held (boundary.c). */
enum clock_boundary { CLOCK_BOUNDARY_AUTO, CLOCK_BOUNDARY_FRAME, CLOCK_BOUNDARY_IDLE, CLOCK_BOUNDARY_SLEEP };

/* What can end the wait of a thread that is parked: time only; another thread of the game; a file, and so another
 * process. */
enum clock_wait { CLOCK_WAIT_TIME, CLOCK_WAIT_THREAD, CLOCK_WAIT_FILE };

/* A thread of the game. */
struct clock_slot {
    _Atomic int32_t tid; /* 0: free */
    _Atomic int32_t pid;
    /* The generation in which it found that it waits for a time beyond where the clock stands; 0 while it runs;
     * CLOCK_PARKING while it checks that there is nothing else to do; CLOCK_ALERTED when it has to check again;
     * CLOCK_DUE while its wait has ended and it waits for its turn, on this word; CLOCK_STARTING from before it is
     * created until it runs for the first time. */
    _Atomic uint32_t parked;
    _Atomic uint32_t kind; /* enum clock_wait: what else can end that wait */
    _Atomic uint64_t n_reads; /* of the time, while it stood */
    _Atomic int64_t until_ns; /* game time that it waits for and whose end has a turn; CLOCK_FOREVER for none */
    _Atomic uint64_t n_returns; /* from waits to the program; counted on Windows only */
    char pad[24];               /* a cache line each */
};

/* A gamepad, as XINPUT_GAMEPAD. */
struct clock_pad {
    uint16_t buttons;
    uint8_t triggers[2]; /* left, right */
    int16_t axes[4];     /* left x, left y, right x, right y; up and right are positive */
    uint32_t must_be_seen; /* 1: for CLOCK_SEEN_NS of game time at least, although a later state is there */
};

struct clock_page {
    uint32_t magic;
    uint32_t layout;
    uint64_t key; /* random; tells this page from others */
    _Atomic uint32_t generation; /* also the futex that sleepers in the game wait on */
    _Atomic uint32_t arrivals;   /* grows with each thread that parks; the futex that the controller waits on */
    _Atomic uint32_t n_watchers; /* controllers that wait on it */
    _Atomic int32_t owner;       /* process id of the controller; 0 when it has let go in order, or was found dead */
    _Atomic uint32_t on_orphan;
    _Atomic uint32_t is_ending; /* every process with this page is to exit */
    _Atomic int64_t checked_ns; /* time of the last check that the owner is alive */
    _Atomic uint32_t boundary;   /* enum clock_boundary */
    _Atomic uint32_t spin_reads; /* a thread that reads the time so often at one place is held */
    _Atomic int64_t started_ns; /* game time when the first process mapped the page; -1 before */
    _Atomic int32_t processes[CLOCK_N_PROCESSES]; /* that have, or had, this page */
    _Atomic uint32_t is_incomplete;               /* the table was full */
    _Atomic int32_t wine_server; /* that of them which is Wine's server, whose timers are timers of the game; 0: none */
    /* Processes without the page that the game may wait for, as the controller says; unknown unless has_servers. */
    _Atomic int32_t servers[CLOCK_N_SERVERS];
    _Atomic uint32_t has_servers;
    /* In this generation the threads whose waits have ended go on one at a time, in the order of their deadlines. */
    _Atomic uint32_t ordered;
    _Atomic int64_t turned_ns; /* real time at which the last of them went on, or the generation began */
    int64_t base_ns[CLOCK_N_IDS]; /* each clock is its base plus the game time */
    uint64_t random_seed;         /* of the random sources of the game (random.c) */
    uint32_t has_random_seed;     /* 0: they give what the kernel gives */
    _Atomic uint32_t is_crowded;  /* all slots for threads were in use */
    _Atomic uint32_t needs_proof; /* the game was last proven to stand, as not all of its threads waited for time */
    _Atomic uint64_t counter_at;  /* address of a loop of the game that reads the counter of the processor; 0: none */
    _Atomic uint64_t loop_at; /* of one that was held because of its duration and is to be reported (spin.c); 0: none */
    struct clock_line lines[2];
    _Atomic uint32_t has_pad; /* the game has a gamepad, at rest while the page has no owner */
    _Atomic uint32_t n_pads;  /* how many states it has had; the last ones are kept */
    _Atomic uint32_t has_pad_reader;  /* the game has opened its device; Linux only, as the next one */
    _Atomic uint32_t n_pads_reported; /* how many of them are in the queues of the game */
    _Atomic uint64_t pads[CLOCK_N_PADS][2]; /* struct clock_pad */
    _Atomic uint32_t n_slots;  /* how many have ever been used */
    _Atomic uint32_t n_claims; /* how often one was taken for a thread */
    struct clock_slot slots[CLOCK_N_SLOTS];
};

/* One look at the clock. */
struct clock_moment {
    uint32_t generation;
    int64_t real_ns;
    int64_t virtual_ns;
    int64_t limit_ns;
    int64_t speed;
    bool is_frozen; /* time does not get on until the next generation */
};

/* The real CLOCK_MONOTONIC; each library brings its own. */
int64_t clock_real_ns(void);
#ifdef _WIN32
static inline void clock_yield(void)
{
    SwitchToThread();
}

/* Wake all threads that wait for the end of a generation, and the next one (views.c). */
void clock_wake(struct clock_page *page, uint32_t generation);
#else
/* A system call; the result is that of the kernel, a negative error number for a failure. Each library brings its own,
 * as the game's `syscall` is ours. */
long clock_call(long number, ...);

/* The result of a system call as a function of libc gives it: -1 and errno. */
static inline long clock_result(long result)
{
    if (result >= 0 || result < -4095)
        return result;
    errno = (int)-result;
    return -1;
}

static inline long clock_futex(_Atomic uint32_t *word, int operation, uint32_t value, const struct timespec *timeout)
{
    return clock_result(clock_call(SYS_futex, word, operation, value, timeout, NULL, 0));
}

/* Wait until the word is no longer `value`, for so long in real time at most; wakes early at any signal. */
static inline void clock_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t timeout_ns)
{
    struct timespec timeout = {timeout_ns / CLOCK_SECOND, timeout_ns % CLOCK_SECOND};
    clock_futex(word, FUTEX_WAIT, value, &timeout);
}

static inline void clock_yield(void)
{
    clock_call(SYS_sched_yield);
}

static inline void clock_wake(struct clock_page *page, uint32_t generation)
{
    (void)generation;
    clock_futex(&page->generation, FUTEX_WAKE, INT_MAX, NULL);
}
#endif

/* Wait while a writer is at work, and take its change back if it does not come to an end. */
static inline void clock_await_writer(struct clock_page *page, uint32_t odd)
{
    int64_t started_ns = clock_real_ns();
    while (atomic_load_explicit(&page->generation, memory_order_acquire) == odd) {
        if (clock_real_ns() - started_ns > CLOCK_WRITER_NS) {
            atomic_compare_exchange_strong(&page->generation, &odd, odd - 1);
            return;
        }
        clock_yield();
    }
}

#ifndef _WIN32
static inline bool clock_has_ended(int32_t pid)
{
    return kill(pid, 0) != 0 && errno == ESRCH;
}

static inline void clock_enlist(struct clock_page *page, int32_t pid)
{
    int saved_errno = errno;
    for (uint32_t i = 0; i < CLOCK_N_PROCESSES; i++) {
        int32_t there = atomic_load(&page->processes[i]);
        if (there == pid)
            return;
        if ((there == 0 || clock_has_ended(there)) && atomic_compare_exchange_strong(&page->processes[i], &there, pid)) {
            errno = saved_errno;
            return;
        }
    }
    atomic_store(&page->is_incomplete, 1);
    errno = saved_errno;
}
#endif

static inline int64_t clock_at(int64_t real_ns, int64_t start_real_ns, int64_t start_ns, int64_t speed, int64_t limit_ns)
{
    int64_t elapsed_ns = real_ns > start_real_ns ? real_ns - start_real_ns : 0;
    __int128 now = start_ns + (((__int128)elapsed_ns * speed) >> 32);
    return now < limit_ns ? (int64_t)now : limit_ns;
}

/* Look at a line that does not change; the caller checks that. */
static inline void clock_look_at(struct clock_line *line, struct clock_moment *moment)
{
    int64_t start_real_ns = atomic_load_explicit(&line->real_ns, memory_order_relaxed);
    int64_t start_ns = atomic_load_explicit(&line->virtual_ns, memory_order_relaxed);
    moment->limit_ns = atomic_load_explicit(&line->limit_ns, memory_order_relaxed);
    moment->speed = atomic_load_explicit(&line->speed, memory_order_relaxed);
    moment->real_ns = clock_real_ns();
    moment->virtual_ns = clock_at(moment->real_ns, start_real_ns, start_ns, moment->speed, moment->limit_ns);
    moment->is_frozen = moment->speed == 0 || moment->virtual_ns >= moment->limit_ns;
}

static inline void clock_look(struct clock_page *page, struct clock_moment *moment)
{
    for (;;) {
        uint32_t generation = atomic_load_explicit(&page->generation, memory_order_acquire);
        if (generation & 1) {
            clock_await_writer(page, generation);
            continue;
        }
        clock_look_at(&page->lines[(generation >> 1) & 1], moment);
        /* The line and the real clock have been read before this load. */
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&page->generation, memory_order_relaxed) == generation) {
            moment->generation = generation;
            return;
        }
    }
}

/* Start a new line here and now.
 *
 * speed    of the new line
 * jump_ns  game time that passes at once
 * run_ns   game time after that until the limit; CLOCK_FOREVER for none
 */
static inline void clock_publish(struct clock_page *page, int64_t speed, int64_t jump_ns, int64_t run_ns)
{
    for (;;) {
        uint32_t even = atomic_load_explicit(&page->generation, memory_order_acquire);
        if (even & 1) {
            clock_await_writer(page, even);
            continue;
        }
        if (!atomic_compare_exchange_strong(&page->generation, &even, even + 1))
            continue;
        uint32_t odd = even + 1;
        struct clock_moment now;
        clock_look_at(&page->lines[(even >> 1) & 1], &now);
        struct clock_line *next = &page->lines[((even >> 1) + 1) & 1];
        int64_t start_ns = now.virtual_ns + jump_ns;
        int64_t limit_ns = run_ns == CLOCK_FOREVER ? CLOCK_FOREVER : start_ns + run_ns;
        atomic_store_explicit(&next->real_ns, now.real_ns, memory_order_relaxed);
        atomic_store_explicit(&next->virtual_ns, start_ns, memory_order_relaxed);
        atomic_store_explicit(&next->limit_ns, limit_ns, memory_order_relaxed);
        atomic_store_explicit(&next->speed, speed, memory_order_relaxed);
        /* It fails if a reader has timed out and continued with the old line. */
        if (atomic_compare_exchange_strong(&page->generation, &odd, even + 2)) {
            clock_wake(page, even);
            return;
        }
    }
}

/* Set the state of the gamepad; only the controller does so. */
static inline void clock_set_pad(struct clock_page *page, const struct clock_pad *pad)
{
    uint64_t words[2];
    __builtin_memcpy(words, pad, sizeof words);
    uint32_t n_pads = atomic_load_explicit(&page->n_pads, memory_order_relaxed);
    atomic_store_explicit(&page->pads[n_pads % CLOCK_N_PADS][0], words[0], memory_order_relaxed);
    atomic_store_explicit(&page->pads[n_pads % CLOCK_N_PADS][1], words[1], memory_order_relaxed);
    atomic_store_explicit(&page->n_pads, n_pads + 1, memory_order_release);
}

/* A part of the game that reads the pad. */
struct clock_pad_reader {
    struct clock_pad pad;
    uint32_t n_seen;  /* states up to this one */
    int64_t since_ns; /* game time at which it was first seen */
};

/* Go on to the next state; false if there is none, or if the present one must be seen for longer. A reader that is far
 * behind goes on to the last state. */
static inline bool clock_next_pad(struct clock_page *page, struct clock_pad_reader *reader, int64_t now_ns)
{
    uint64_t words[2];
    for (;;) {
        uint32_t n_pads = atomic_load_explicit(&page->n_pads, memory_order_acquire);
        uint32_t n_new = n_pads - reader->n_seen;
        if (n_new == 0 || (reader->pad.must_be_seen && now_ns - reader->since_ns < CLOCK_SEEN_NS))
            return false;
        uint32_t number = n_new > CLOCK_N_PADS / 2 ? n_pads - 1 : reader->n_seen;
        words[0] = atomic_load_explicit(&page->pads[number % CLOCK_N_PADS][0], memory_order_relaxed);
        words[1] = atomic_load_explicit(&page->pads[number % CLOCK_N_PADS][1], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&page->n_pads, memory_order_relaxed) - number >= CLOCK_N_PADS)
            continue; /* the controller is replacing it */
        __builtin_memcpy(&reader->pad, words, sizeof words);
        reader->n_seen = number + 1;
        reader->since_ns = now_ns;
        return true;
    }
}

#ifndef _WIN32
/* The lock of the controller on the file of the page; the kernel lets go of it when the controller dies. */
static inline struct flock clock_owner_lock(short type)
{
    return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
}
#endif

#endif
