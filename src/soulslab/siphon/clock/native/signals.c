/* Waiting for signals. The signals are real; a thread that waits for one parks when timers of the game may send it.
 *
 * Without such a timer only a time-out has anything to do with time, and calls without one go to the kernel. */
#define _GNU_SOURCE
#include "preload.h"

#include <sys/signalfd.h>

PUBLIC int pause(void)
{
    struct pollfd waker;
    sigset_t during;
    if (!is_attached())
        return real.pause();
    if (!has_timers())
        return real.ppoll(NULL, 0, NULL, without_samples(&during, NULL));
    return wait_for_files(&waker, 0, CLOCK_FOREVER, NULL);
}

PUBLIC int sigsuspend(const sigset_t *mask)
{
    struct pollfd waker;
    sigset_t during;
    if (!is_attached() || !has_timers())
        return real.sigsuspend(is_attached() ? without_samples(&during, mask) : mask);
    return wait_for_files(&waker, 0, CLOCK_FOREVER, mask);
}

static int close_and_return(int fd, int result)
{
    int saved_errno = errno;
    if (fd >= 0)
        real.close(fd);
    errno = saved_errno;
    return result;
}

/* A signalfd becomes readable when a signal of the set is pending, and takes none. */
static int await_signal(const sigset_t *set, siginfo_t *info, int64_t until_ns)
{
    static const struct timespec none = {0, 0};
    int fd = -1;
    for (;;) {
        int number = real.sigtimedwait(set, info, &none);
        if (number >= 0 || errno != EAGAIN)
            return close_and_return(fd, number);
        if (fd < 0 && (fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
            return -1;
        struct pollfd file[2] = {{.fd = fd, .events = POLLIN}};
        int result = wait_for_files(file, 1, until_ns, NULL);
        if (result == 0)
            errno = EAGAIN;
        if (result <= 0)
            return close_and_return(fd, -1);
    }
}

PUBLIC int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout)
{
    bool has_timeout = timeout != NULL && is_valid(timeout);
    if (!is_attached() || (timeout != NULL && !has_timeout))
        return real.sigtimedwait(set, info, timeout);
    if (!has_timeout && !has_timers()) {
        int number;
        REPEAT_SAMPLED(number, real.sigtimedwait(set, info, NULL));
        return number;
    }
    return await_signal(set, info, has_timeout ? after(to_ns(timeout)) : CLOCK_FOREVER);
}

PUBLIC int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
    return sigtimedwait(set, info, NULL);
}

PUBLIC int sigwait(const sigset_t *restrict set, int *restrict number)
{
    int saved_errno = errno, result;
    do
        result = sigwaitinfo(set, NULL);
    while (result < 0 && errno == EINTR);
    int error = result < 0 ? errno : 0;
    if (result >= 0)
        *number = result;
    errno = saved_errno;
    return error;
}
