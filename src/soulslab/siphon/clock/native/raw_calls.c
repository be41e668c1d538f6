/* The function syscall: system calls that read the time or wait for it become those of this library. Rust's standard
 * library and Wine wait for futexes in this way. */
#define _GNU_SOURCE
#include "preload.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/random.h>
#include <sys/timerfd.h>

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* --- futexes ------------------------------------------------------------------------------------------------------ */

static int call_futex(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    (void)clock; /* CLOCK_MONOTONIC */
    int operation = FUTEX_WAIT_BITSET | (wait->operation & FUTEX_PRIVATE_FLAG);
    wait->result = clock_call(SYS_futex, wait->object, operation, (long)wait->value, deadline, NULL, (long)wait->mask);
    return wait->result < 0 ? (int)-wait->result : 0;
}

/* The helper wakes all that wait for the futex when the clock changes. They see a wake-up without a cause, which they
 * have to be ready for (man futex). */
static long wait_for_futex(const long *arguments)
{
    int operation = (int)arguments[1], command = operation & FUTEX_CMD_MASK;
    const struct timespec *timeout = (const struct timespec *)arguments[3];
    struct timed_wait wait = {.call = call_futex, .object = (void *)arguments[0], .operation = operation};
    wait.value = (uint32_t)arguments[2];
    wait.mask = command == FUTEX_WAIT ? FUTEX_BITSET_MATCH_ANY : (uint32_t)arguments[5];
    clockid_t clock = operation & FUTEX_CLOCK_REALTIME ? CLOCK_REALTIME : CLOCK_MONOTONIC;
    int64_t until_ns = command == FUTEX_WAIT ? after(to_ns(timeout)) : to_ns(timeout) - page->base_ns[clock];
    return -wait_until(&wait, CLOCK_MONOTONIC, until_ns);
}

static bool is_timed_futex(const long *arguments)
{
    int command = (int)arguments[1] & FUTEX_CMD_MASK;
    return (command == FUTEX_WAIT || command == FUTEX_WAIT_BITSET) && arguments[3] != 0 &&
           is_valid((const struct timespec *)arguments[3]);
}

static int call_futex_waitv(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    wait->result = clock_call(SYS_futex_waitv, wait->object, wait->n_bytes, 0L, deadline, (long)clock);
    return wait->result < 0 ? (int)-wait->result : 0;
}

static long wait_for_futexes(const long *arguments)
{
    clockid_t clock = (clockid_t)arguments[4];
    struct timed_wait wait = {.call = call_futex_waitv, .object = (void *)arguments[0], .is_sliced = true};
    wait.n_bytes = (size_t)arguments[1];
    int64_t until_ns = to_ns((const struct timespec *)arguments[3]) - page->base_ns[clock];
    int error = wait_until(&wait, clock, until_ns);
    return error != 0 ? -error : wait.result;
}

/* --- the other calls ---------------------------------------------------------------------------------------------- */

static long call_kernel(long number, const long *arguments)
{
    return clock_result(
        clock_call(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]));
}

static long call_time(long number, const long *arguments)
{
    const struct timespec *duration = (const struct timespec *)arguments[2];
    switch (number) {
    case SYS_clock_gettime:
        return clock_gettime((clockid_t)arguments[0], (struct timespec *)arguments[1]);
    case SYS_gettimeofday:
        return arguments[0] == 0 ? 0 : gettimeofday((struct timeval *)arguments[0], (void *)arguments[1]);
    case SYS_nanosleep:
        return nanosleep((const struct timespec *)arguments[0], (struct timespec *)arguments[1]);
    case SYS_clock_nanosleep:
        return clock_result(
            -clock_nanosleep((clockid_t)arguments[0], (int)arguments[1], duration, (struct timespec *)arguments[3]));
    case SYS_sched_yield:
        return sched_yield();
    case SYS_futex:
        return is_timed_futex(arguments) ? clock_result(wait_for_futex(arguments)) : call_kernel(number, arguments);
    case SYS_futex_waitv:
        if (arguments[3] == 0 || !is_virtual((clockid_t)arguments[4]))
            return call_kernel(number, arguments);
        return clock_result(wait_for_futexes(arguments));
#ifdef SYS_time
    case SYS_time:
        return time((time_t *)arguments[0]);
#endif
    default:
        return call_kernel(number, arguments);
    }
}

/* A mask of the C library with the signals in one of the kernel, which has 8 bytes; NULL for none. */
static const sigset_t *widen(sigset_t *full, const void *mask)
{
    if (mask == NULL)
        return NULL;
    sigemptyset(full);
    memcpy(full, mask, sizeof(uint64_t));
    return full;
}

static long call_timer(long number, const long *arguments)
{
    const struct itimerspec *value = (const struct itimerspec *)arguments[2];
    sigset_t full;
    switch (number) {
    case SYS_setitimer:
        return setitimer((int)arguments[0], (const struct itimerval *)arguments[1], (struct itimerval *)arguments[2]);
    case SYS_getitimer:
        return getitimer((int)arguments[0], (struct itimerval *)arguments[1]);
    case SYS_timerfd_create:
        return timerfd_create((int)arguments[0], (int)arguments[1]);
    case SYS_timerfd_settime:
        return timerfd_settime((int)arguments[0], (int)arguments[1], value, (struct itimerspec *)arguments[3]);
    case SYS_timerfd_gettime:
        return timerfd_gettime((int)arguments[0], (struct itimerspec *)arguments[1]);
    case SYS_rt_sigtimedwait:
        return sigtimedwait(widen(&full, (const void *)arguments[0]), (siginfo_t *)arguments[1],
                            (const struct timespec *)value);
#ifdef SYS_alarm
    case SYS_alarm:
        return alarm((unsigned)arguments[0]);
    case SYS_pause:
        return pause();
#endif
    default:
        return call_time(number, arguments);
    }
}

/* The mask of pselect6 comes with its size. */
struct sized_mask {
    const void *mask;
    size_t n_bytes;
};

static long call_pselect(const long *arguments)
{
    const struct sized_mask *sized = (const struct sized_mask *)arguments[5];
    sigset_t full;
    return pselect((int)arguments[0], (fd_set *)arguments[1], (fd_set *)arguments[2], (fd_set *)arguments[3],
                   (const struct timespec *)arguments[4], widen(&full, sized == NULL ? NULL : sized->mask));
}

static long call_files(long number, const long *arguments)
{
    struct epoll_event *events = (struct epoll_event *)arguments[1];
    sigset_t full;
    switch (number) {
    case SYS_ppoll:
        return ppoll((struct pollfd *)arguments[0], (nfds_t)arguments[1], (const struct timespec *)arguments[2],
                     widen(&full, (const void *)arguments[3]));
    case SYS_pselect6:
        return call_pselect(arguments);
    case SYS_epoll_pwait:
        return epoll_pwait((int)arguments[0], events, (int)arguments[2], (int)arguments[3],
                           widen(&full, (const void *)arguments[4]));
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
        return epoll_pwait2((int)arguments[0], events, (int)arguments[2], (const struct timespec *)arguments[3],
                            widen(&full, (const void *)arguments[4]));
#endif
#ifdef SYS_poll
    case SYS_poll:
        return poll((struct pollfd *)arguments[0], (nfds_t)arguments[1], (int)arguments[2]);
    case SYS_select:
        return select((int)arguments[0], (fd_set *)arguments[1], (fd_set *)arguments[2], (fd_set *)arguments[3],
                      (struct timeval *)arguments[4]);
    case SYS_epoll_wait:
        return epoll_wait((int)arguments[0], events, (int)arguments[2], (int)arguments[3]);
#endif
    case SYS_read:
        return read((int)arguments[0], (void *)arguments[1], (size_t)arguments[2]);
    case SYS_close:
        return close((int)arguments[0]);
#ifdef SYS_open
    case SYS_open:
        return open((const char *)arguments[0], (int)arguments[1], (mode_t)arguments[2]);
#endif
    case SYS_openat:
        return openat((int)arguments[0], (const char *)arguments[1], (int)arguments[2], (mode_t)arguments[3]);
    case SYS_getrandom:
        return getrandom((void *)arguments[0], (size_t)arguments[1], (unsigned)arguments[2]);
    default:
        return call_timer(number, arguments);
    }
}

PUBLIC long syscall(long number, ...)
{
    va_list list;
    long arguments[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    return is_attached() ? call_files(number, arguments) : call_kernel(number, arguments);
}
