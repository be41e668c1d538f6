/* Asking for the time. */
#define _GNU_SOURCE
#include "preload.h"

#include <string.h>

bool is_virtual(clockid_t clock)
{
    /* The CPU time that was used stays what it is; negative ones are CPU times of others, or devices. */
    return clock >= 0 && clock < CLOCK_N_IDS && clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID;
}

void look(struct clock_moment *moment)
{
    clock_look(page, moment);
    self.seen_ns = moment->virtual_ns;
    if (self.count_generation != moment->generation) {
        self.count_generation = moment->generation;
        self.n_reads = self.n_turns = 0;
        self.has_read = false;
    }
    check_owner(moment->real_ns);
}

/* A program that never sleeps would go round and round while time stands, as often as it has real time for, and that
 * is chance. So a thread that has gone round often enough is held in its next question about the time, and counts as
 * parked, until time gets on. */
static bool is_spinning(void)
{
    if (self.n_reads >= atomic_load_explicit(&page->spin_reads, memory_order_relaxed))
        return true;
    return self.n_turns >= atomic_load_explicit(&page->spin_turns, memory_order_relaxed) && is_main_thread();
}

void count_turn(void)
{
    if (self.has_read) {
        self.has_read = false;
        self.n_turns++;
    }
}

static int64_t read_ns(void)
{
    struct clock_moment moment;
    int saved_errno = errno;
    look(&moment);
    if (moment.is_frozen && is_spinning()) {
        uint32_t generation = moment.generation;
        while (moment.generation == generation && moment.is_frozen) {
            park(generation);
            clock_futex_wait(&page->generation, generation, CHECK_NS);
            look(&moment);
        }
        unpark();
        errno = saved_errno;
    }
    self.n_reads++;
    self.has_read = true;
    return moment.virtual_ns;
}

PUBLIC int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!is_attached() || !is_virtual(clock))
        return real.clock_gettime != NULL ? real.clock_gettime(clock, now) : (int)syscall(SYS_clock_gettime, clock, now);
    *now = to_timespec(page->base_ns[clock] + read_ns());
    return 0;
}

PUBLIC int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise;
    if (zone != NULL)
        memset(zone, 0, sizeof(struct timezone));
    clock_gettime(CLOCK_REALTIME, &precise);
    *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
    return 0;
}

PUBLIC time_t time(time_t *now)
{
    struct timespec precise;
    clock_gettime(CLOCK_REALTIME, &precise);
    if (now != NULL)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

PUBLIC int timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC)
        return 0;
    clock_gettime(CLOCK_REALTIME, now);
    return base;
}
