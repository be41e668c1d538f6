/* timerfd in game time. The file is an eventfd: reading gives the count that was written since the last read, and poll,
 * select, epoll, dup and fork behave alike. The helper thread writes the expirations to a duplicate of the descriptor.
 *
 * The game's descriptor and ours refer to the same file, so ours has to be closed with the game's last one: otherwise
 * the file would stay in the epoll sets of the game. close is the common case. A descriptor that was lost in another way
 * (dup2, close_range) is found when its timer expires.
 */
#define _GNU_SOURCE
#include "pad.h"
#include "timers.h"

#include <dlfcn.h>
#include <linux/kcmp.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>

/* Out of the way of programs that expect the first free numbers. */
#define LOWEST_FD 220
/* Descriptors up to here are searched for a copy of one that is closed. */
#define MAX_FD 1024

/* The numbers that were given to timers: most reads and closes are of other files. */
static _Atomic bool is_timer_fd[MAX_FD];

static bool is_same_file(int one, int other)
{
    pid_t pid = getpid();
    return clock_call(SYS_kcmp, pid, pid, KCMP_FILE, one, other) == 0;
}

static bool is_file_of(const struct timer *timer, int fd)
{
    return is_same_file(timer->own_fd, fd);
}

static void mark(int fd, bool is_timer)
{
    if (fd >= 0 && fd < MAX_FD)
        atomic_store(&is_timer_fd[fd], is_timer);
}

static bool is_marked(int fd)
{
    return fd >= 0 && fd < MAX_FD && atomic_load_explicit(&is_timer_fd[fd], memory_order_relaxed);
}

/* The game closes `closed`: keep another descriptor of the same file, or give the timer up. */
static void lose_descriptor(struct timer *timer, int closed)
{
    mark(closed, false);
    for (int fd = 0; fd < MAX_FD; fd++) {
        if (fd == closed || fd == timer->own_fd || !is_same_file(fd, timer->own_fd))
            continue;
        timer->fd = fd;
        mark(fd, true);
        return;
    }
    clock_call(SYS_close, timer->own_fd);
    timer->kind = TIMER_FREE;
}

void expire_timer_file(struct timer *timer, int64_t n_expired)
{
    uint64_t count = (uint64_t)n_expired;
    if (!is_same_file(timer->fd, timer->own_fd))
        lose_descriptor(timer, timer->fd);
    if (timer->kind == TIMER_FILE)
        clock_call(SYS_write, timer->own_fd, &count, sizeof count);
}

PUBLIC int timerfd_create(int clock, int flags)
{
    if (!is_attached() || !is_timer_clock(clock) || (flags & ~(TFD_NONBLOCK | TFD_CLOEXEC)) != 0)
        return (int)clock_result(clock_call(SYS_timerfd_create, clock, flags));
    sigset_t before;
    int fd = eventfd(0, flags); /* the flags of both are those of open */
    int own_fd = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    int error = errno;
    lock_timers(&before);
    struct timer *timer = own_fd < 0 ? NULL : take_timer(TIMER_FILE, clock);
    if (timer != NULL) {
        timer->fd = fd;
        timer->own_fd = own_fd;
        mark(fd, true);
    }
    unlock_timers(&before);
    if (timer != NULL)
        return fd;
    if (own_fd >= 0) {
        clock_call(SYS_close, own_fd);
        error = EMFILE;
    }
    if (fd >= 0)
        clock_call(SYS_close, fd);
    errno = error;
    return -1;
}

PUBLIC int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
    sigset_t before;
    struct itimerspec before_value;
    if (!is_attached() || !is_valid_itimerspec(value))
        return (int)clock_result(clock_call(SYS_timerfd_settime, fd, flags, value, old));
    bool has_helper = start_helper(), is_urgent = false;
    lock_timers(&before);
    struct timer *timer = find_timer(TIMER_FILE, is_file_of, fd);
    if (timer != NULL) {
        uint64_t count;
        struct iovec unread = {&count, sizeof count};
        get_timer(timer, &before_value);
        clock_call(SYS_preadv2, timer->own_fd, &unread, 1, -1, 0, RWF_NOWAIT); /* setting it forgets expirations */
        is_urgent = set_timer(timer, timer->clock, flags & TFD_TIMER_ABSTIME, value);
    }
    unlock_timers(&before);
    if (timer == NULL) /* a timer of the kernel that was inherited, or no timer */
        return (int)clock_result(clock_call(SYS_timerfd_settime, fd, flags, value, old));
    if (old != NULL)
        *old = before_value;
    if (is_urgent && has_helper)
        await_helper();
    return 0;
}

PUBLIC int timerfd_gettime(int fd, struct itimerspec *value)
{
    sigset_t before;
    if (!is_attached())
        return (int)clock_result(clock_call(SYS_timerfd_gettime, fd, value));
    lock_timers(&before);
    struct timer *timer = find_timer(TIMER_FILE, is_file_of, fd);
    if (timer != NULL)
        get_timer(timer, value);
    unlock_timers(&before);
    return timer != NULL ? 0 : (int)clock_result(clock_call(SYS_timerfd_gettime, fd, value));
}

/* A blocking read of a timer is a wait for time. */
PUBLIC ssize_t read(int fd, void *data, size_t n_bytes)
{
    update_pads();
    if (is_marked(fd) && is_attached() && has_timers() && (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0) {
        struct pollfd file[2] = {{.fd = fd, .events = POLLIN}};
        if (wait_for_files(file, 1, CLOCK_FOREVER, NULL) < 0)
            return -1;
    }
    if (real.read == NULL)
        return clock_result(clock_call(SYS_read, fd, data, n_bytes));
    return real.read(fd, data, n_bytes);
}

ssize_t __read_chk(int fd, void *data, size_t n_bytes, size_t size);

PUBLIC ssize_t __read_chk(int fd, void *data, size_t n_bytes, size_t size)
{
    if (size < n_bytes)
        __builtin_trap();
    return read(fd, data, n_bytes);
}

PUBLIC int close(int fd)
{
    close_pad(fd);
    if (is_marked(fd) && is_attached()) {
        sigset_t before;
        lock_timers(&before);
        struct timer *timer = find_timer(TIMER_FILE, is_file_of, fd);
        if (timer != NULL && timer->fd == fd)
            lose_descriptor(timer, fd);
        else
            mark(fd, false);
        unlock_timers(&before);
    }
    if (real.close == NULL)
        return (int)clock_result(clock_call(SYS_close, fd));
    return real.close(fd);
}
