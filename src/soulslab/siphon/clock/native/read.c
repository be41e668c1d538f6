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
    update_pads();
    self.seen_ns = moment->virtual_ns;
    if (self.cycle.generation != moment->generation)
        begin_generation(moment->generation);
    check_owner(moment->real_ns);
}

static int64_t read_ns(struct call call)
{
    struct clock_moment moment;
    int saved_errno = errno;
    look(&moment);
    at_read(&moment, call);
    errno = saved_errno;
    return moment.virtual_ns;
}

static struct timespec wall_time(struct call call)
{
    if (is_attached())
        return to_timespec(page->base_ns[CLOCK_REALTIME] + read_ns(call));
    struct timespec now;
    clock_call(SYS_clock_gettime, CLOCK_REALTIME, &now);
    return now;
}

PUBLIC int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!is_attached() || !is_virtual(clock))
        return real.clock_gettime != NULL ? real.clock_gettime(clock, now)
                                          : (int)clock_result(clock_call(SYS_clock_gettime, clock, now));
    *now = to_timespec(page->base_ns[clock] + read_ns(THIS_CALL()));
    return 0;
}

PUBLIC int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec precise = wall_time(THIS_CALL());
    if (zone != NULL)
        memset(zone, 0, sizeof(struct timezone));
    *now = (struct timeval){precise.tv_sec, precise.tv_nsec / 1000};
    return 0;
}

PUBLIC time_t time(time_t *now)
{
    struct timespec precise = wall_time(THIS_CALL());
    if (now != NULL)
        *now = precise.tv_sec;
    return precise.tv_sec;
}

PUBLIC int timespec_get(struct timespec *now, int base)
{
    if (base != TIME_UTC)
        return 0;
    *now = wall_time(THIS_CALL());
    return base;
}
