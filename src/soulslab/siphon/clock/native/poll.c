/* Waiting for files with a timeout. The timeout is game time: the thread waits for its files and for the helper, who
 * wakes it when the clock has changed. A call without a timeout is passed through; with a timeout of 0 the program
 * asks for events, once per turn of its loop. */
#define _GNU_SOURCE
#include "preload.h"

#include <alloca.h>
#include <string.h>

/* With more files than this, a second list of them does not fit on the stack; then the thread polls every
 * millisecond. */
#define MAX_FILES 4096

/* What a thread waits for, apart from time. */
struct wait {
    struct waiter *waiter;
    struct pollfd *files;
    nfds_t n;
    const sigset_t *mask;
    enum clock_wait kind;
};

/* Return what ppoll finds at once, if a timer may have brought it; else park. */
static int park_unless_ready(const struct wait *wait, const struct clock_moment *moment)
{
    static const struct timespec none = {0, 0};
    if (!has_timers()) {
        if (moment->is_frozen)
            park(moment->generation, wait->kind);
        return 0;
    }
    for (;;) {
        bool is_parking = moment->is_frozen && begin_park(moment->generation);
        uint32_t n_fires = count_fires();
        int result = real.ppoll(wait->files, wait->n, &none, wait->mask);
        if (result != 0) {
            unpark();
            return result;
        }
        if (is_parking && !finish_park(moment->generation, wait->kind))
            continue;
        if (wait->waiter != NULL) /* from now on the helper may park it */
            atomic_store(&wait->waiter->n_fires, n_fires);
        return 0;
    }
}

static void cancel_wait(void *waiter)
{
    end_wait(waiter);
}

/* Wait for files until a game time, while signals are held that `mask` lets in; the result is that of ppoll, 0 when the
 * time has come. `all` has room for one more than `n`. */
int wait_with_mask(struct pollfd *all, nfds_t n, int64_t until_ns, const sigset_t *mask)
{
    struct waiter *waiter = n < MAX_FILES ? begin_wait(NULL, until_ns, n > 0 ? CLOCK_WAIT_FILE : CLOCK_WAIT_TIME) : NULL;
    int wake_fd = waiter == NULL ? -1 : atomic_load(&waiter->wake_fd);
    int result;
    pthread_cleanup_push(cancel_wait, waiter);
    for (;;) {
        struct clock_moment moment;
        look(&moment);
        set_deadline(until_ns);
        if (waiter != NULL && !note(waiter, moment.generation))
            continue;
        int64_t wait_ns = moment.virtual_ns >= until_ns ? 0 : real_wait_until_ns(&moment, until_ns);
        if (wake_fd < 0 && wait_ns > CLOCK_MS)
            wait_ns = CLOCK_MS;
        struct timespec timeout = to_timespec(wait_ns);
        if (wake_fd >= 0)
            all[n] = (struct pollfd){.fd = wake_fd, .events = POLLIN};
        nfds_t n_all = wake_fd >= 0 ? n + 1 : n;
        struct wait wait = {waiter, all, n_all, mask, n > 0 ? CLOCK_WAIT_FILE : CLOCK_WAIT_TIME};
        self.has_waited |= wait_ns > 0;
        result = wait_ns > 0 ? park_unless_ready(&wait, &moment) : 0;
        if (result == 0)
            result = real.ppoll(all, n_all, &timeout, mask);
        if (wake_fd >= 0 && result > 0 && all[n].revents != 0) {
            uint64_t count;
            if (real.read(wake_fd, &count, sizeof count) >= 0 || errno == EAGAIN)
                result--;
        }
        if (result != 0 || wait_ns == 0)
            break;
    }
    pthread_cleanup_pop(0);
    int saved_errno = errno;
    end_wait(waiter);
    if (result == 0)
        await_turn(until_ns);
    if (result != 0) { /* if it was a file or a signal that woke it, then what it saw of the time may be old */
        struct clock_moment moment;
        look(&moment);
    }
    errno = saved_errno;
    return result;
}

/* The same with signals as they are; `mask` may be NULL. */
int wait_for_files(struct pollfd *all, nfds_t n, int64_t until_ns, const sigset_t *mask)
{
    sigset_t before, during;
    int result;
    hold_signals(&before);
    pthread_cleanup_push(release_signals, &before);
    result = wait_with_mask(all, n, until_ns, without_samples(&during, mask != NULL ? mask : &before));
    pthread_cleanup_pop(1);
    return result;
}

static int poll_until(struct pollfd *files, nfds_t n, int64_t until_ns, const sigset_t *mask)
{
    if (n >= MAX_FILES)
        return wait_for_files(files, n, until_ns, mask);
    struct pollfd *all = alloca((n + 1) * sizeof *all);
    memcpy(all, files, n * sizeof *all);
    int result = wait_for_files(all, n, until_ns, mask);
    for (nfds_t i = 0; i < n && result >= 0; i++)
        files[i].revents = all[i].revents;
    return result;
}

PUBLIC int poll(struct pollfd *files, nfds_t n, int timeout_ms)
{
    sigset_t during;
    if (!is_attached())
        return real.poll(files, n, timeout_ms);
    if (timeout_ms < 0)
        return real.ppoll(files, n, NULL, without_samples(&during, NULL));
    if (timeout_ms > 0)
        return poll_until(files, n, after(timeout_ms * CLOCK_MS), NULL);
    before_look(THIS_CALL());
    int result;
    REPEAT_SAMPLED(result, real.poll(files, n, 0));
    if (result == 0)
        after_idle_look(LOOK_RAW);
    return result;
}

PUBLIC int ppoll(struct pollfd *files, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    sigset_t during;
    if (!is_attached() || (timeout != NULL && !is_valid(timeout)))
        return real.ppoll(files, n, timeout, mask);
    if (timeout == NULL)
        return real.ppoll(files, n, NULL, without_samples(&during, mask));
    if (to_ns(timeout) > 0)
        return poll_until(files, n, after(to_ns(timeout)), mask);
    before_look(THIS_CALL());
    int result;
    REPEAT_SAMPLED(result, real.ppoll(files, n, timeout, mask));
    if (result == 0)
        after_idle_look(LOOK_RAW);
    return result;
}

/* What programs call that were compiled with _FORTIFY_SOURCE. */
int __poll_chk(struct pollfd *files, nfds_t n, int timeout_ms, size_t size);
int __ppoll_chk(struct pollfd *files, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t size);

PUBLIC int __poll_chk(struct pollfd *files, nfds_t n, int timeout_ms, size_t size)
{
    if (size / sizeof *files < n)
        __builtin_trap();
    return poll(files, n, timeout_ms);
}

PUBLIC int __ppoll_chk(struct pollfd *files, nfds_t n, const struct timespec *timeout, const sigset_t *mask, size_t size)
{
    if (size / sizeof *files < n)
        __builtin_trap();
    return ppoll(files, n, timeout, mask);
}

/* --- select, by way of poll ---------------------------------------------------------------------------------- */

/* As in the kernel (fs/select.c: POLLIN_SET, POLLOUT_SET, POLLEX_SET). */
#define READABLE (POLLRDNORM | POLLRDBAND | POLLIN | POLLHUP | POLLERR)
#define WRITABLE (POLLWRBAND | POLLWRNORM | POLLOUT | POLLERR)
#define SPECIAL POLLPRI

static bool is_in(int fd, const fd_set *set)
{
    return set != NULL && (set->fds_bits[fd / __NFDBITS] >> (fd % __NFDBITS) & 1);
}

static int keep_if(bool is_ready, int fd, fd_set *set)
{
    if (!is_in(fd, set))
        return 0;
    if (!is_ready)
        set->fds_bits[fd / __NFDBITS] &= ~((__fd_mask)1 << (fd % __NFDBITS));
    return is_ready;
}

static int select_until(int n, fd_set *reading, fd_set *writing, fd_set *special, int64_t until_ns, const sigset_t *mask)
{
    if (n < 0 || n >= MAX_FILES) {
        errno = EINVAL;
        return -1;
    }
    struct pollfd *files = alloca(((size_t)n + 1) * sizeof *files);
    nfds_t n_files = 0;
    for (int fd = 0; fd < n; fd++) {
        int events = (is_in(fd, reading) ? POLLIN | POLLRDNORM | POLLRDBAND : 0) |
                     (is_in(fd, writing) ? POLLOUT | POLLWRNORM | POLLWRBAND : 0) | (is_in(fd, special) ? POLLPRI : 0);
        if (events != 0)
            files[n_files++] = (struct pollfd){.fd = fd, .events = (short)events};
    }
    int result = wait_for_files(files, n_files, until_ns, mask);
    if (result < 0)
        return -1;
    int n_ready = 0;
    for (nfds_t i = 0; i < n_files; i++) {
        short got = files[i].revents;
        if (got & POLLNVAL) {
            errno = EBADF;
            return -1;
        }
        n_ready += keep_if(got & READABLE, files[i].fd, reading) + keep_if(got & WRITABLE, files[i].fd, writing) +
                   keep_if(got & SPECIAL, files[i].fd, special);
    }
    return n_ready;
}

PUBLIC int select(int n, fd_set *reading, fd_set *writing, fd_set *special, struct timeval *timeout)
{
    sigset_t during;
    if (!is_attached())
        return real.select(n, reading, writing, special, timeout);
    if (timeout == NULL)
        return real.pselect(n, reading, writing, special, NULL, without_samples(&during, NULL));
    if (timeout->tv_sec == 0 && timeout->tv_usec == 0) {
        before_look(THIS_CALL());
        int result;
        REPEAT_SAMPLED(result, real.select(n, reading, writing, special, timeout));
        if (result == 0)
            after_idle_look(LOOK_RAW);
        return result;
    }
    if (timeout->tv_sec < 0 || timeout->tv_usec < 0) {
        errno = EINVAL;
        return -1;
    }
    struct timespec duration = {timeout->tv_sec + timeout->tv_usec / 1000000, timeout->tv_usec % 1000000 * 1000};
    int64_t until_ns = after(to_ns(&duration));
    int result = select_until(n, reading, writing, special, until_ns, NULL);
    /* Linux returns the remaining timeout, and programs rely on it. */
    int64_t left_ns = until_ns > self.seen_ns ? until_ns - self.seen_ns : 0;
    *timeout = (struct timeval){left_ns / CLOCK_SECOND, left_ns % CLOCK_SECOND / 1000};
    return result;
}

PUBLIC int pselect(int n, fd_set *reading, fd_set *writing, fd_set *special, const struct timespec *timeout,
                   const sigset_t *mask)
{
    sigset_t during;
    if (!is_attached() || (timeout != NULL && !is_valid(timeout)))
        return real.pselect(n, reading, writing, special, timeout, mask);
    if (timeout == NULL)
        return real.pselect(n, reading, writing, special, NULL, without_samples(&during, mask));
    if (to_ns(timeout) == 0) {
        before_look(THIS_CALL());
        int result;
        REPEAT_SAMPLED(result, real.pselect(n, reading, writing, special, timeout, mask));
        if (result == 0)
            after_idle_look(LOOK_RAW);
        return result;
    }
    return select_until(n, reading, writing, special, after(to_ns(timeout)), mask);
}

/* --- epoll: its descriptor can be polled itself ---------------------------------------------------------------- */

static int epoll_until(int epoll, struct epoll_event *events, int n, int64_t until_ns, const sigset_t *mask)
{
    sigset_t before, during;
    int result;
    hold_signals(&before);
    pthread_cleanup_push(release_signals, &before);
    mask = without_samples(&during, mask != NULL ? mask : &before);
    for (;;) {
        result = real.epoll_pwait(epoll, events, n, 0, mask);
        if (result != 0)
            break;
        struct pollfd file[2] = {{.fd = epoll, .events = POLLIN}};
        result = wait_with_mask(file, 1, until_ns, mask);
        if (result <= 0)
            break;
        /* Another thread may take the event first; then the wait goes on. */
    }
    pthread_cleanup_pop(1);
    return result;
}

PUBLIC int epoll_pwait(int epoll, struct epoll_event *events, int n, int timeout_ms, const sigset_t *mask)
{
    sigset_t during;
    if (!is_attached())
        return real.epoll_pwait(epoll, events, n, timeout_ms, mask);
    if (timeout_ms < 0)
        return real.epoll_pwait(epoll, events, n, -1, without_samples(&during, mask));
    if (timeout_ms > 0)
        return epoll_until(epoll, events, n, after(timeout_ms * CLOCK_MS), mask);
    before_look(THIS_CALL());
    int result;
    REPEAT_SAMPLED(result, real.epoll_pwait(epoll, events, n, 0, mask));
    if (result == 0)
        after_idle_look(LOOK_RAW);
    return result;
}

/* Since glibc 2.35. */
PUBLIC int epoll_pwait2(int epoll, struct epoll_event *events, int n, const struct timespec *timeout,
                        const sigset_t *mask)
{
    if (timeout == NULL)
        return epoll_pwait(epoll, events, n, -1, mask);
    if (!is_valid(timeout)) {
        errno = EINVAL;
        return -1;
    }
    if (to_ns(timeout) == 0)
        return epoll_pwait(epoll, events, n, 0, mask);
    if (!is_attached())
        return real.epoll_pwait2(epoll, events, n, timeout, mask);
    return epoll_until(epoll, events, n, after(to_ns(timeout)), mask);
}

PUBLIC int epoll_wait(int epoll, struct epoll_event *events, int n, int timeout_ms)
{
    return epoll_pwait(epoll, events, n, timeout_ms, NULL);
}

/* --- yielding ----------------------------------------------------------------------------------------------------
 *
 * Wine yields for Sleep(0), SwitchToThread and a PeekMessage that found no message, so its message queue is empty then. */

PUBLIC int sched_yield(void)
{
    if (!is_attached())
        return (int)clock_result(clock_call(SYS_sched_yield));
    before_look(THIS_CALL());
    int result = (int)clock_result(clock_call(SYS_sched_yield));
    after_idle_look(LOOK_EXACT);
    return result;
}
