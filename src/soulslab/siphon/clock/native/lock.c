/* Waiting for conditions, semaphores and mutexes with a deadline.
 *
 * Deadlines are game time; the real call gets a real one. Conditions are woken by the helper when the clock changes.
 * Semaphores and mutexes cannot be woken in vain, so their waiters look again after a while that grows: a step finds
 * them within a fraction of a millisecond, a long pause costs next to nothing.
 */
#define _GNU_SOURCE
#include "preload.h"

#define FIRST_SLICE_NS (CLOCK_MS / 4)
#define LAST_SLICE_NS (20 * CLOCK_MS)

struct timed_wait {
    int (*call)(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline); /* an error number */
    void *object;
    pthread_mutex_t *mutex;
    bool is_sliced;
};

/* The real deadline of a wait that begins now. */
static struct timespec real_deadline(clockid_t clock, int64_t wait_ns)
{
    struct timespec now;
    real.clock_gettime(clock, &now);
    return to_timespec(to_ns(&now) + wait_ns);
}

static void leave(void *waiter)
{
    end_wait(waiter);
}

/* Wait until a game time, by the clock that it was given in and that the real call takes too. */
static int wait_until(struct timed_wait *wait, clockid_t clock, int64_t until_ns)
{
    struct waiter *waiter = wait->is_sliced ? NULL : begin_wait(wait->object, until_ns);
    int64_t slice_ns = FIRST_SLICE_NS;
    uint32_t generation = 0;
    int result;
    pthread_cleanup_push(leave, waiter);
    for (;;) {
        struct clock_moment moment;
        look(&moment);
        if (waiter != NULL && !note(waiter, moment.generation))
            continue;
        if (moment.generation != generation)
            slice_ns = FIRST_SLICE_NS;
        generation = moment.generation;
        bool is_over = moment.virtual_ns >= until_ns;
        int64_t wait_ns = is_over ? 0 : real_wait_until_ns(&moment, until_ns);
        if (!is_over && moment.is_frozen)
            park(generation);
        if (waiter == NULL && wait_ns > slice_ns)
            wait_ns = slice_ns;
        if (slice_ns < LAST_SLICE_NS)
            slice_ns *= 2;
        struct timespec deadline = real_deadline(clock, wait_ns);
        result = wait->call(wait, clock, &deadline);
        if (result != ETIMEDOUT || is_over)
            break;
    }
    pthread_cleanup_pop(1);
    struct clock_moment moment;
    look(&moment);
    /* The helper signals a condition when it is time. Before that, the game may have signalled it too, so we must not
     * wait on; it sees a signal without a cause, which it has to be ready for. */
    if (result == 0 && waiter != NULL && atomic_load(&waiter->is_woken) && moment.virtual_ns >= until_ns)
        return ETIMEDOUT;
    return result;
}

static int call_cond(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    if (real.cond_clockwait == NULL) /* before glibc 2.30; then `clock` is the condition's own */
        return real.cond_timedwait(wait->object, wait->mutex, deadline);
    return real.cond_clockwait(wait->object, wait->mutex, clock, deadline);
}

/* The clock of a condition is a bit of its flags in glibc (nptl/pthread_cond_common.c: __wrefs, bit 1). */
static clockid_t clock_of(pthread_cond_t *cond)
{
    return cond->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

static int cond_until(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline)
{
    struct timed_wait wait = {call_cond, cond, mutex, false};
    int saved_errno = errno;
    int result = wait_until(&wait, clock, to_ns(deadline) - page->base_ns[clock]);
    errno = saved_errno;
    return result;
}

PUBLIC int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                                  const struct timespec *restrict deadline)
{
    if (!is_attached() || !is_valid(deadline))
        return real.cond_timedwait(cond, mutex, deadline);
    return cond_until(cond, mutex, clock_of(cond), deadline);
}

PUBLIC int pthread_cond_clockwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex, clockid_t clock,
                                  const struct timespec *restrict deadline)
{
    if (!is_attached() || !is_virtual(clock) || !is_valid(deadline))
        return real.cond_clockwait(cond, mutex, clock, deadline);
    return cond_until(cond, mutex, clock, deadline);
}

static int call_semaphore(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    int failed = real.sem_clockwait != NULL ? real.sem_clockwait(wait->object, clock, deadline)
                                            : real.sem_timedwait(wait->object, deadline);
    return failed ? errno : 0;
}

static int semaphore_until(sem_t *semaphore, clockid_t clock, const struct timespec *deadline)
{
    struct timed_wait wait = {call_semaphore, semaphore, NULL, true};
    int saved_errno = errno;
    int error = wait_until(&wait, clock, to_ns(deadline) - page->base_ns[clock]);
    errno = error ? error : saved_errno;
    return error ? -1 : 0;
}

PUBLIC int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline)
{
    if (!is_attached() || !is_valid(deadline))
        return real.sem_timedwait(semaphore, deadline);
    return semaphore_until(semaphore, CLOCK_REALTIME, deadline);
}

PUBLIC int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict deadline)
{
    if (!is_attached() || !is_virtual(clock) || !is_valid(deadline))
        return real.sem_clockwait(semaphore, clock, deadline);
    return semaphore_until(semaphore, clock, deadline);
}

static int call_mutex(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    return real.mutex_clocklock != NULL ? real.mutex_clocklock(wait->object, clock, deadline)
                                        : real.mutex_timedlock(wait->object, deadline);
}

static int mutex_until(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline)
{
    struct timed_wait wait = {call_mutex, mutex, NULL, true};
    int saved_errno = errno;
    int result = wait_until(&wait, clock, to_ns(deadline) - page->base_ns[clock]);
    errno = saved_errno;
    return result;
}

PUBLIC int pthread_mutex_timedlock(pthread_mutex_t *restrict mutex, const struct timespec *restrict deadline)
{
    if (!is_attached() || !is_valid(deadline))
        return real.mutex_timedlock(mutex, deadline);
    return mutex_until(mutex, CLOCK_REALTIME, deadline);
}

PUBLIC int pthread_mutex_clocklock(pthread_mutex_t *restrict mutex, clockid_t clock,
                                   const struct timespec *restrict deadline)
{
    if (!is_attached() || !is_virtual(clock) || !is_valid(deadline))
        return real.mutex_clocklock(mutex, clock, deadline);
    return mutex_until(mutex, clock, deadline);
}
