/* Sleeping. A sleeper knows the game time that it sleeps to and waits on the generation of the page: any change of the
 * clock wakes it, and it works out anew how long that is in real time. */
#define _GNU_SOURCE
#include "preload.h"

/* How late a signal may come to a sleeper. */
#define DEAF_NS (2 * CLOCK_MS)

int64_t real_time_until_ns(const struct clock_moment *moment, int64_t until_ns)
{
    if (moment->is_frozen || until_ns > moment->limit_ns)
        return CLOCK_FOREVER;
    __int128 wait_ns = (((__int128)(until_ns - moment->virtual_ns) << 32) + moment->speed - 1) / moment->speed;
    return wait_ns < CLOCK_FOREVER ? (int64_t)wait_ns : CLOCK_FOREVER;
}

int64_t real_wait_until_ns(const struct clock_moment *moment, int64_t until_ns)
{
    int64_t wait_ns = real_time_until_ns(moment, until_ns < moment->limit_ns ? until_ns : moment->limit_ns);
    return wait_ns < CHECK_NS ? wait_ns : CHECK_NS;
}

/* Counted from what this thread knows of the time. If the controller moves the clock on after the game looked at it and
 * before it goes to sleep, then a sleep that counted from now would skip what became due in between: the step would be
 * over and the game would not even have seen it. Only for the thread that steps wait for: others may not have asked for
 * the time in ages. */
int64_t after(int64_t duration_ns)
{
    int64_t seen_ns = self.seen_ns;
    struct clock_moment moment;
    look(&moment);
    int64_t from_ns = moment.is_frozen && seen_ns >= 0 && is_main_thread() ? seen_ns : moment.virtual_ns;
    return duration_ns > CLOCK_FOREVER - from_ns ? CLOCK_FOREVER : from_ns + duration_ns;
}

/* To the program a wait is one call, and a signal at any time in it ends it. Ours is many, so a signal that came in
 * between would be handled and forgotten, and the wait would go on, for good while time stands. So signals are
 * blocked wherever a wait is not in the kernel, except signals for a fault of this thread: blocked, they would kill. */
void hold_signals(sigset_t *before)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t held;
    sigfillset(&held);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&held, faults[i]);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

void release_signals(void *before)
{
    int saved_errno = errno; /* a handler may run */
    pthread_sigmask(SIG_SETMASK, before, NULL);
    errno = saved_errno;
}

const sigset_t *without_samples(sigset_t *copy, const sigset_t *mask)
{
    if (mask != NULL)
        *copy = *mask;
    else
        pthread_sigmask(SIG_SETMASK, NULL, copy);
    sigaddset(copy, CLOCK_SAMPLE_SIGNAL);
    return copy;
}

void set_deadline(int64_t until_ns)
{
    struct clock_slot *slot = this_thread()->slot;
    if (slot != NULL)
        atomic_store_explicit(&slot->until_ns, until_ns, memory_order_relaxed);
}

/* The controller releases one thread after another (control.c). If it changes the clock first, all go on. */
void await_turn(int64_t until_ns)
{
    uint32_t generation = atomic_load(&page->generation);
    struct clock_slot *slot = this_thread()->slot;
    if (slot == NULL || atomic_load(&page->ordered) != generation || self.turn == generation)
        return;
    int saved_errno = errno;
    self.turn = generation;
    set_deadline(until_ns);
    park_slot(slot, CLOCK_DUE, CLOCK_WAIT_TIME);
    while (atomic_load(&slot->parked) == CLOCK_DUE && atomic_load(&page->generation) == generation) {
        /* A thread that wakes often would be taken for a running one (still.c). */
        clock_futex_wait(&slot->parked, CLOCK_DUE, CHECK_NS);
        check_owner(clock_real_ns());
    }
    unpark();
    errno = saved_errno;
}

/* Sleep, for a while at least; false if a signal came, also if it came before. On the page a sleeper is woken at once,
 * but a futex cannot let signals in for the time of the sleep only. So they have to wait while it is there, and it does
 * not stay for long: a controller that steps the game returns soon; otherwise the thread waits with the helper. */
static bool sleep_once(const struct clock_moment *moment, int64_t until_ns, const sigset_t *mask)
{
    static const struct timespec none = {0, 0};
    bool is_parking;
    set_deadline(until_ns);
    do {
        is_parking = moment->is_frozen && begin_park(moment->generation);
        if (real.ppoll(NULL, 0, &none, mask) != 0 && errno == EINTR)
            return false;
    } while (is_parking && !finish_park(moment->generation, CLOCK_WAIT_TIME));
    int64_t wait_ns = real_wait_until_ns(moment, until_ns);
    struct timespec timeout = to_timespec(wait_ns < DEAF_NS ? wait_ns : DEAF_NS);
    if (clock_futex(&page->generation, FUTEX_WAIT, moment->generation, &timeout) == 0 || errno != ETIMEDOUT ||
        wait_ns <= DEAF_NS)
        return true;
    struct pollfd waker;
    return wait_with_mask(&waker, 0, until_ns, mask) >= 0 || errno != EINTR;
}

/* Sleep while signals are held. */
static bool sleep_with_mask(int64_t until_ns, const sigset_t *mask)
{
    struct clock_moment moment;
    bool has_slept = true, has_waited = false;
    for (look(&moment); has_slept && moment.virtual_ns < until_ns; look(&moment)) {
        has_waited = self.has_waited = true;
        if (!moment.is_frozen)
            alert();
        has_slept = sleep_once(&moment, until_ns, mask);
        /* Sleeping is a place where a thread can be cancelled; the futex is none. */
        pthread_testcancel();
    }
    if (has_slept && has_waited)
        await_turn(until_ns);
    unpark();
    return has_slept;
}

bool sleep_until(int64_t until_ns)
{
    sigset_t before, mask;
    bool has_slept;
    hold_signals(&before);
    pthread_cleanup_push(release_signals, &before);
    has_slept = sleep_with_mask(until_ns, without_samples(&mask, &before));
    pthread_cleanup_pop(1);
    pthread_testcancel();
    return has_slept;
}

/* Sleep; 0 or an error number. */
static int sleep_for(int64_t duration_ns, int64_t *left_ns)
{
    *left_ns = 0;
    if (duration_ns == 0)
        return sched_yield();
    int64_t until_ns = after(duration_ns);
    if (sleep_until(until_ns))
        return 0;
    *left_ns = until_ns > self.seen_ns ? until_ns - self.seen_ns : 0;
    return EINTR;
}

PUBLIC int clock_nanosleep(clockid_t clock, int flags, const struct timespec *duration, struct timespec *left)
{
    if (!is_attached() || !is_virtual(clock))
        return real.clock_nanosleep(clock, flags, duration, left);
    if (!is_valid(duration))
        return EINVAL;
    int saved_errno = errno, error;
    int64_t left_ns;
    if (flags & TIMER_ABSTIME) {
        error = sleep_until(to_ns(duration) - page->base_ns[clock]) ? 0 : EINTR;
    } else {
        error = sleep_for(to_ns(duration), &left_ns);
        if (error == EINTR && left != NULL)
            *left = to_timespec(left_ns);
    }
    errno = saved_errno; /* it reports by its result alone */
    return error;
}

PUBLIC int nanosleep(const struct timespec *duration, struct timespec *left)
{
    if (!is_attached())
        return real.nanosleep(duration, left);
    int error = clock_nanosleep(CLOCK_MONOTONIC, 0, duration, left);
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

PUBLIC int usleep(useconds_t duration_us)
{
    struct timespec duration = to_timespec(duration_us * 1000ll);
    return nanosleep(&duration, NULL);
}

PUBLIC unsigned int sleep(unsigned int duration_s)
{
    struct timespec duration = {duration_s, 0}, left = {0, 0};
    if (nanosleep(&duration, &left) == 0)
        return 0;
    return (unsigned int)(left.tv_sec + (left.tv_nsec >= CLOCK_SECOND / 2));
}
