/* A helper thread in the game, which wakes waiters for a file, a condition or a signal when the clock changes.
 *
 * They cannot wait on the page at the same time. It is started by the first that needs it, and not when the library is
 * loaded: programs that set up a sandbox must have one thread only.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#define STACK_BYTES (64 * 1024)
/* A condition that is signalled a moment before the thread waits on it is lost; then it is signalled again. */
#define AGAIN_NS (CLOCK_MS / 20)
#define LOWEST_FD 210

static struct waiter waiters[CLOCK_N_SLOTS];
static _Atomic int n_waiters; /* that have ever been used */
static _Atomic int is_started;
/* Numbers of the last request to look at the timers, and of the last one that was answered. */
static _Atomic uint32_t n_asked, n_answered;
/* Of a waiter that has not looked for signals and files yet. */
#define NEVER UINT32_MAX
/* How often timers have expired. A thread that has not looked for signals and files since parks by itself only. */
static _Atomic uint32_t n_fires;

static struct waiter *this_waiter(void)
{
    if (self.waiter != NULL)
        return self.waiter;
    for (int i = 0; i < CLOCK_N_SLOTS; i++) {
        int32_t none = 0;
        if (!atomic_compare_exchange_strong(&waiters[i].is_used, &none, 1))
            continue;
        int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
        if (high >= 0) {
            real.close(fd);
            fd = high;
        }
        atomic_store(&waiters[i].wake_fd, fd);
        int n_before = atomic_load(&n_waiters);
        while (n_before < i + 1 && !atomic_compare_exchange_weak(&n_waiters, &n_before, i + 1))
            ;
        self.waiter = &waiters[i];
        self.waiter->slot = this_thread()->slot; /* its end gives the waiter back */
        return self.waiter;
    }
    return NULL;
}

static bool is_behind(struct waiter *waiter, uint32_t generation)
{
    return (int32_t)(generation - atomic_load(&waiter->seen)) > 0;
}

/* The waiter has seen a line that has reached its limit since, which does not wake waiters for a condition. */
static bool is_at_limit(struct waiter *waiter, const struct clock_moment *moment)
{
    return moment->is_frozen && atomic_load(&waiter->seen) == moment->generation && waiter->slot != NULL &&
           atomic_load(&waiter->slot->parked) != moment->generation;
}

/* While it is BUSY it does not leave, so its condition exists and its slot is its own. */
static void attend(struct waiter *waiter, const struct clock_moment *moment)
{
    int32_t waits = WAITER_WAITS;
    if (!atomic_compare_exchange_strong(&waiter->state, &waits, WAITER_BUSY))
        return;
    pthread_cond_t *cond = atomic_load(&waiter->cond);
    uint32_t *futex = atomic_load(&waiter->futex);
    bool has_file = cond == NULL && futex == NULL;
    bool is_to_wake = atomic_load(&waiter->is_woken) || (!has_file && atomic_load(&waiter->is_timed)) ||
                      (has_file && atomic_load(&waiter->n_fires) != atomic_load(&n_fires));
    uint64_t one = 1;
    bool is_early = moment->is_frozen && atomic_load(&waiter->until_ns) > moment->virtual_ns;
    if (!is_behind(waiter, moment->generation) && !(is_early && is_at_limit(waiter, moment))) {
        /* It has taken note meanwhile. */
    } else if (is_early && waiter->slot != NULL && !is_to_wake) {
        /* Nothing changes for it, so it need not wake up to find that out. */
        atomic_store(&waiter->seen, moment->generation);
        park_slot(waiter->slot, moment->generation, waiter->kind);
    } else if (!is_behind(waiter, moment->generation)) {
        /* It is waking up already. */
    } else if (cond != NULL) {
        atomic_store(&waiter->is_woken, 1);
        pthread_cond_broadcast(cond); /* others wake for nothing, which they must be ready for */
    } else if (futex != NULL) {
        atomic_store(&waiter->is_woken, 1);
        clock_call(SYS_futex, futex, waiter->futex_operation, INT_MAX, NULL, NULL, 0); /* likewise (man futex) */
    } else if (write(atomic_load(&waiter->wake_fd), &one, sizeof one) < 0) {
        errno = 0; /* EAGAIN: it is awake already */
    }
    atomic_store(&waiter->state, WAITER_WAITS);
}

/* Returns whether a waiter exists that has not processed the change yet. */
static bool attend_to_all(const struct clock_moment *moment)
{
    bool is_any_behind = false;
    for (int i = 0; i < atomic_load(&n_waiters); i++) {
        struct waiter *waiter = &waiters[i];
        if (atomic_load(&waiter->state) == WAITER_IDLE ||
            (!is_behind(waiter, moment->generation) && !is_at_limit(waiter, moment)))
            continue;
        attend(waiter, moment);
        is_any_behind = is_any_behind || is_behind(waiter, moment->generation);
    }
    return is_any_behind;
}

/* Threads that wait for a file or a signal check again, as the file or signal may come from a timer. */
static void wake_all(void)
{
    uint64_t one = 1;
    alert_all();
    clock_futex(&page->generation, FUTEX_WAKE, INT_MAX, NULL);
    for (int i = 0; i < atomic_load(&n_waiters); i++) {
        int32_t waits = WAITER_WAITS;
        if (!atomic_compare_exchange_strong(&waiters[i].state, &waits, WAITER_BUSY))
            continue;
        if (atomic_load(&waiters[i].cond) == NULL && atomic_load(&waiters[i].futex) == NULL)
            clock_call(SYS_write, atomic_load(&waiters[i].wake_fd), &one, sizeof one);
        atomic_store(&waiters[i].state, WAITER_WAITS);
    }
}

/* Expire the timers that are due. Returns when the next one is due; -1 if there has never been one. The helper is not
 * parked while a timer is due, and what the timer sets in motion is not parked either when the helper parks. */
static int64_t attend_to_timers(const struct clock_moment *moment)
{
    if (!has_timers())
        return -1;
    if (this_thread()->slot != NULL && atomic_load(&self.slot->parked) == 0)
        alert();
    if (fire_timers(moment->virtual_ns)) {
        atomic_fetch_add(&n_fires, 1);
        wake_all();
    }
    return next_timer_ns();
}

static void answer(uint32_t asked)
{
    if (atomic_exchange(&n_answered, asked) != asked)
        clock_futex(&n_answered, FUTEX_WAKE, INT_MAX, NULL);
}

uint32_t count_fires(void)
{
    return atomic_load(&n_fires);
}

void await_helper(void)
{
    uint32_t ticket = atomic_fetch_add(&n_asked, 1) + 1, answered;
    int saved_errno = errno;
    while ((int32_t)((answered = atomic_load(&n_answered)) - ticket) < 0) {
        clock_futex(&page->generation, FUTEX_WAKE, INT_MAX, NULL);
        clock_futex_wait(&n_answered, answered, AGAIN_NS);
    }
    errno = saved_errno;
}

static void *help(void *nothing)
{
    prctl(PR_SET_NAME, CLOCK_HELPER_NAME);
    for (;;) {
        struct clock_moment moment;
        clock_look(page, &moment);
        bool has_states = !update_pads() && !moment.is_frozen;
        uint32_t asked = atomic_load(&n_asked);
        int64_t next_ns = attend_to_timers(&moment);
        bool is_to_repeat = attend_to_all(&moment);
        if (next_ns >= 0 && moment.is_frozen)
            park(moment.generation, CLOCK_WAIT_TIME);
        answer(asked);
        int64_t wait_ns = real_wait_until_ns(&moment, next_ns >= 0 && next_ns < moment.limit_ns ? next_ns : moment.limit_ns);
        if (has_states && wait_ns > CLOCK_MS)
            wait_ns = CLOCK_MS;
        clock_futex_wait(&page->generation, moment.generation, is_to_repeat ? AGAIN_NS : wait_ns);
        check_owner(clock_real_ns());
    }
    return nothing;
}

bool start_helper(void)
{
    if (atomic_load_explicit(&is_started, memory_order_relaxed) || atomic_exchange(&is_started, 1))
        return true;
    sigset_t all, before;
    sigfillset(&all);
    /* Signals are for the threads of the game. */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_t helper;
    bool has_started = real.pthread_create(&helper, &attributes, help, NULL) == 0;
    if (!has_started)
        atomic_store(&is_started, 0);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return has_started;
}

struct waiter *begin_wait(pthread_cond_t *cond, int64_t until_ns, enum clock_wait kind)
{
    struct waiter *waiter = this_waiter();
    if (waiter == NULL || !start_helper())
        return NULL;
    waiter->kind = kind;
    atomic_store(&waiter->cond, cond);
    atomic_store(&waiter->futex, NULL);
    atomic_store(&waiter->is_timed, 0);
    atomic_store(&waiter->until_ns, until_ns);
    return waiter;
}

static void take_back(struct waiter *waiter)
{
    int32_t waits = WAITER_WAITS;
    /* BUSY: the helper attends to it, for a system call or two. */
    while (!atomic_compare_exchange_strong(&waiter->state, &waits, WAITER_IDLE) && waits != WAITER_IDLE)
        waits = WAITER_WAITS;
}

bool note(struct waiter *waiter, uint32_t generation)
{
    take_back(waiter);
    atomic_store(&waiter->is_woken, 0);
    atomic_store(&waiter->n_fires, has_timers() ? NEVER : 0);
    atomic_store(&waiter->seen, generation);
    atomic_store(&waiter->state, WAITER_WAITS);
    /* Either the helper comes by later than this and finds it waiting, or it has to look at the new line itself. */
    return atomic_load(&page->generation) == generation;
}

void end_wait(struct waiter *waiter)
{
    if (waiter != NULL)
        take_back(waiter);
    unpark();
}

void reset_helper(void)
{
    atomic_store(&is_started, 0);
    atomic_store(&n_fires, 0);
    atomic_store(&n_asked, 0);
    atomic_store(&n_answered, 0);
    for (int i = 0; i < atomic_load(&n_waiters); i++) {
        /* The descriptors are shared with the parent; we make our own. */
        if (atomic_load(&waiters[i].is_used) && atomic_load(&waiters[i].wake_fd) >= 0)
            real.close(atomic_load(&waiters[i].wake_fd));
        atomic_store(&waiters[i].is_used, 0);
        atomic_store(&waiters[i].state, WAITER_IDLE);
        atomic_store(&waiters[i].cond, NULL);
        atomic_store(&waiters[i].wake_fd, -1);
    }
}
