/* Waiting for conditions, semaphores and mutexes with a deadline.
 *
 * Deadlines are game time; the real call gets a real one. Conditions are woken by the helper when the clock changes. Who
 * has left one goes back to the program, if need be without a cause, and does not wait on: a program may signal it after
 * it has let go of the mutex, and that would be lost on a waiter who is just looking at the clock.
 *
 * Semaphores and mutexes cannot be woken in vain, so their waiters look again after a while that grows: a step finds
 * them within a fraction of a millisecond, a long pause costs next to nothing.
 */
#define _GNU_SOURCE
#include "preload.h"

#define FIRST_SLICE_NS (CLOCK_MS / 4)
#define LAST_SLICE_NS (20 * CLOCK_MS)
/* How long to wait for a condition at most: a deadline has to fit in a timespec. */
#define LONG_NS (86400 * CLOCK_SECOND)

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

int wait_until(struct timed_wait *wait, clockid_t clock, int64_t until_ns)
{
    struct waiter *waiter = wait->is_sliced ? NULL : begin_wait(wait->cond, until_ns, CLOCK_WAIT_THREAD);
    if (waiter != NULL && wait->cond == NULL) {
        waiter->futex_operation = FUTEX_WAKE | (wait->operation & FUTEX_PRIVATE_FLAG);
        atomic_store(&waiter->futex, wait->object);
    }
    int64_t slice_ns = FIRST_SLICE_NS;
    uint32_t generation = 0;
    int result;
    pthread_cleanup_push(leave, waiter);
    for (;;) {
        struct clock_moment moment;
        look(&moment);
        int64_t real_ns = moment.virtual_ns >= until_ns ? 0 : real_time_until_ns(&moment, until_ns);
        if (waiter != NULL)
            atomic_store(&waiter->is_timed, real_ns < LONG_NS);
        if (waiter != NULL && !note(waiter, moment.generation))
            continue;
        if (moment.generation != generation)
            slice_ns = FIRST_SLICE_NS;
        generation = moment.generation;
        if (real_ns > 0 && moment.is_frozen)
            park(generation, CLOCK_WAIT_THREAD);
        else if (real_ns > 0)
            alert();
        int64_t longest_ns = waiter == NULL ? slice_ns : LONG_NS;
        int64_t wait_ns = real_ns < longest_ns ? real_ns : longest_ns;
        if (slice_ns < LAST_SLICE_NS)
            slice_ns *= 2;
        struct timespec deadline = real_deadline(clock, wait_ns);
        self.was_sampled = 0;
        result = wait->call(wait, clock, &deadline);
        if (result == EINTR && self.was_sampled)
            continue;
        if (waiter != NULL || result != ETIMEDOUT || real_ns == 0)
            break;
    }
    pthread_cleanup_pop(1);
    struct clock_moment moment;
    look(&moment);
    /* The helper signals a condition when it is time. Before that, the game may have signalled it too, so we must not
     * wait on; it sees a signal without a cause, which it has to be ready for. */
    if (result == 0 && waiter != NULL && atomic_load(&waiter->is_woken) && moment.virtual_ns >= until_ns)
        return ETIMEDOUT;
    /* Time was slowed down meanwhile, and the helper has not come by yet. */
    if (result == ETIMEDOUT && waiter != NULL && moment.virtual_ns < until_ns)
        return 0;
    return result;
}

static int call_cond(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    if (real.cond_clockwait == NULL)
        return real.cond_timedwait(wait->object, wait->mutex, deadline);
    return real.cond_clockwait(wait->object, wait->mutex, clock, deadline);
}

/* The clock of a condition is a bit of its flags in glibc (nptl/pthread_cond_common.c: __wrefs, bit 1). */
clockid_t clock_of(pthread_cond_t *cond)
{
    return cond->__data.__wrefs & 2 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int cond_until(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline)
{
    struct timed_wait wait = {.call = call_cond, .object = cond, .cond = cond, .mutex = mutex};
    int saved_errno = errno;
    /* The time of day may be set, and we wait for long. Before glibc 2.30 it has to be the clock of the condition. */
    clockid_t real_clock = clock == CLOCK_REALTIME && real.cond_clockwait != NULL ? CLOCK_MONOTONIC : clock;
    int result = wait_until(&wait, real_clock, to_ns(deadline) - page->base_ns[clock]);
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
    struct timed_wait wait = {.call = call_semaphore, .object = semaphore, .is_sliced = true};
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

int mutex_until(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline)
{
    struct timed_wait wait = {.call = call_mutex, .object = mutex, .is_sliced = true};
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
