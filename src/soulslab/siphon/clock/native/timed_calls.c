/* Locks, threads, message queues and semaphores with a deadline. A waiter cannot be woken without a cause, so the real
 * call is repeated with short deadlines (lock.c). C11's conditions and mutexes are those of pthreads in glibc. */
#define _GNU_SOURCE
#include "preload.h"

#include <sys/times.h>
#include <threads.h>

/* Make a call again until a game time; an error number. */
static int repeat_until(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    int saved_errno = errno;
    wait->is_sliced = true;
    int error = wait_until(wait, clock, to_ns(deadline) - page->base_ns[clock]);
    errno = saved_errno;
    return error;
}

static int set_errno(int error)
{
    if (error == 0)
        return 0;
    errno = error;
    return -1;
}

static bool is_ours(clockid_t clock, const struct timespec *deadline)
{
    return is_attached() && is_virtual(clock) && is_valid(deadline);
}

/* --- read-write locks --------------------------------------------------------------------------------------------- */

static int call_read_lock(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    return real.rwlock_clockrdlock != NULL ? real.rwlock_clockrdlock(wait->object, clock, deadline)
                                           : real.rwlock_timedrdlock(wait->object, deadline);
}

static int call_write_lock(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    return real.rwlock_clockwrlock != NULL ? real.rwlock_clockwrlock(wait->object, clock, deadline)
                                           : real.rwlock_timedwrlock(wait->object, deadline);
}

PUBLIC int pthread_rwlock_timedrdlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict deadline)
{
    if (!is_ours(CLOCK_REALTIME, deadline))
        return real.rwlock_timedrdlock(lock, deadline);
    return repeat_until(&(struct timed_wait){.call = call_read_lock, .object = lock}, CLOCK_REALTIME, deadline);
}

PUBLIC int pthread_rwlock_timedwrlock(pthread_rwlock_t *restrict lock, const struct timespec *restrict deadline)
{
    if (!is_ours(CLOCK_REALTIME, deadline))
        return real.rwlock_timedwrlock(lock, deadline);
    return repeat_until(&(struct timed_wait){.call = call_write_lock, .object = lock}, CLOCK_REALTIME, deadline);
}

PUBLIC int pthread_rwlock_clockrdlock(pthread_rwlock_t *restrict lock, clockid_t clock,
                                      const struct timespec *restrict deadline)
{
    if (!is_ours(clock, deadline))
        return real.rwlock_clockrdlock(lock, clock, deadline);
    return repeat_until(&(struct timed_wait){.call = call_read_lock, .object = lock}, clock, deadline);
}

PUBLIC int pthread_rwlock_clockwrlock(pthread_rwlock_t *restrict lock, clockid_t clock,
                                      const struct timespec *restrict deadline)
{
    if (!is_ours(clock, deadline))
        return real.rwlock_clockwrlock(lock, clock, deadline);
    return repeat_until(&(struct timed_wait){.call = call_write_lock, .object = lock}, clock, deadline);
}

/* --- the end of a thread ------------------------------------------------------------------------------------------ */

static int call_join(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    pthread_t thread = (pthread_t)wait->object;
    return real.clockjoin != NULL ? real.clockjoin(thread, wait->more, clock, deadline)
                                  : real.timedjoin(thread, wait->more, deadline);
}

PUBLIC int pthread_timedjoin_np(pthread_t thread, void **result, const struct timespec *deadline)
{
    if (deadline == NULL || !is_ours(CLOCK_REALTIME, deadline))
        return real.timedjoin(thread, result, deadline);
    struct timed_wait wait = {.call = call_join, .object = (void *)thread, .more = result};
    return repeat_until(&wait, CLOCK_REALTIME, deadline);
}

PUBLIC int pthread_clockjoin_np(pthread_t thread, void **result, clockid_t clock, const struct timespec *deadline)
{
    if (deadline == NULL || !is_ours(clock, deadline))
        return real.clockjoin(thread, result, clock, deadline);
    struct timed_wait wait = {.call = call_join, .object = (void *)thread, .more = result};
    return repeat_until(&wait, clock, deadline);
}

/* --- message queues and semaphores of System V -------------------------------------------------------------------- */

static int call_send(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    (void)clock; /* CLOCK_REALTIME */
    wait->result = real.mq_timedsend((mqd_t)wait->operation, wait->object, wait->n_bytes, wait->value, deadline);
    return wait->result < 0 ? errno : 0;
}

static int call_receive(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    (void)clock;
    wait->result = real.mq_timedreceive((mqd_t)wait->operation, wait->object, wait->n_bytes, wait->more, deadline);
    return wait->result < 0 ? errno : 0;
}

PUBLIC int mq_timedsend(mqd_t queue, const char *message, size_t n_bytes, unsigned priority,
                        const struct timespec *deadline)
{
    if (!is_ours(CLOCK_REALTIME, deadline))
        return real.mq_timedsend(queue, message, n_bytes, priority, deadline);
    struct timed_wait wait = {.call = call_send, .operation = queue, .object = (void *)message};
    wait.n_bytes = n_bytes;
    wait.value = priority;
    return set_errno(repeat_until(&wait, CLOCK_REALTIME, deadline));
}

PUBLIC ssize_t mq_timedreceive(mqd_t queue, char *restrict message, size_t n_bytes, unsigned *restrict priority,
                               const struct timespec *restrict deadline)
{
    if (!is_ours(CLOCK_REALTIME, deadline))
        return real.mq_timedreceive(queue, message, n_bytes, priority, deadline);
    struct timed_wait wait = {.call = call_receive, .operation = queue, .object = message};
    wait.n_bytes = n_bytes;
    wait.more = priority;
    return set_errno(repeat_until(&wait, CLOCK_REALTIME, deadline)) == 0 ? wait.result : -1;
}

static int call_semtimedop(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline)
{
    struct timespec now;
    real.clock_gettime(clock, &now);
    int64_t left_ns = to_ns(deadline) - to_ns(&now);
    struct timespec left = to_timespec(left_ns > 0 ? left_ns : 0);
    int result = real.semtimedop(wait->operation, wait->object, wait->n_bytes, &left);
    return result == 0 ? 0 : errno == EAGAIN ? ETIMEDOUT : errno;
}

/* EAGAIN means that the time is over, or with IPC_NOWAIT that the wait would block: then it is not repeated. */
PUBLIC int semtimedop(int set, struct sembuf *operations, size_t n, const struct timespec *timeout)
{
    if (!is_attached() || timeout == NULL || !is_valid(timeout))
        return real.semtimedop(set, operations, n, timeout);
    for (size_t i = 0; i < n; i++)
        if (operations[i].sem_flg & IPC_NOWAIT)
            return real.semtimedop(set, operations, n, timeout);
    int saved_errno = errno;
    struct timed_wait wait = {.call = call_semtimedop, .operation = set, .object = operations, .is_sliced = true};
    wait.n_bytes = n;
    int error = wait_until(&wait, CLOCK_MONOTONIC, after(to_ns(timeout)));
    errno = saved_errno;
    return set_errno(error == ETIMEDOUT ? EAGAIN : error);
}

/* --- C11 ---------------------------------------------------------------------------------------------------------- */

static int to_thrd(int error)
{
    return error == 0 ? thrd_success : error == ETIMEDOUT ? thrd_timedout : error == EBUSY ? thrd_busy : thrd_error;
}

PUBLIC int thrd_sleep(const struct timespec *duration, struct timespec *left)
{
    int error = clock_nanosleep(CLOCK_REALTIME, 0, duration, left);
    return error == 0 ? 0 : error == EINTR ? -1 : -2;
}

PUBLIC int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict deadline)
{
    return to_thrd(pthread_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, deadline));
}

PUBLIC int mtx_timedlock(mtx_t *restrict mutex, const struct timespec *restrict deadline)
{
    return to_thrd(pthread_mutex_timedlock((pthread_mutex_t *)mutex, deadline));
}

/* --- CPU time as a clock ------------------------------------------------------------------------------------------ */

/* A program that paces itself by clock() would run on while time stands. It gets the game time since its start, as a
 * program that is always busy. */
PUBLIC clock_t clock(void)
{
    struct timespec now;
    if (!is_attached()) {
        clock_call(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now);
        return (clock_t)(to_ns(&now) / (CLOCK_SECOND / CLOCKS_PER_SEC));
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t since_ns = to_ns(&now) - page->base_ns[CLOCK_MONOTONIC] - atomic_load(&page->started_ns);
    return (clock_t)(since_ns / (CLOCK_SECOND / CLOCKS_PER_SEC));
}

/* Its result is a clock; the CPU times in the buffer are real. */
PUBLIC clock_t times(struct tms *used)
{
    clock_t real_ticks = (clock_t)clock_result(clock_call(SYS_times, used));
    struct timespec now;
    if (!is_attached())
        return real_ticks;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (clock_t)(to_ns(&now) / (CLOCK_SECOND / sysconf(_SC_CLK_TCK)));
}
