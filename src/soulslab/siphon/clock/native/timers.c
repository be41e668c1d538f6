/* Kernel timers in game time: setitimer(ITIMER_REAL), alarm, and POSIX timers.
 *
 * The kernel is not asked for a timer. The helper thread (helper.c) keeps the expiration times and sends the signals,
 * so everything that receives a signal works without a change: pause, sigsuspend, sigwaitinfo, signalfd, handlers.
 *
 * A periodic timer that passes several periods at once sends one signal. The others are its overrun count, as in the
 * kernel (man timer_getoverrun).
 */
#define _GNU_SOURCE
#include "preload.h"
#include "timers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Identifiers of our timers. Those of the kernel start at 0. */
#define FIRST_ID 0x40000000
#define ITIMER (&timers[0])

static struct timer timers[N_TIMERS] = {[0] = {.kind = TIMER_ALARM, .until_ns = CLOCK_FOREVER}};
static atomic_flag is_locked = ATOMIC_FLAG_INIT;
static _Atomic bool were_armed;

bool has_timers(void)
{
    return atomic_load_explicit(&were_armed, memory_order_acquire);
}

/* Signals are held, as a handler may set a timer too. */
void lock_timers(sigset_t *before)
{
    hold_signals(before);
    while (atomic_flag_test_and_set(&is_locked))
        clock_call(SYS_sched_yield);
}

void unlock_timers(sigset_t *before)
{
    atomic_flag_clear(&is_locked);
    release_signals(before);
}

struct timer *find_timer(enum timer_kind kind, bool (*is_right)(const struct timer *, int), int key)
{
    for (int i = 0; i < N_TIMERS; i++)
        if (timers[i].kind == kind && (is_right == NULL || is_right(&timers[i], key)))
            return &timers[i];
    return NULL;
}

/* --- setting ------------------------------------------------------------------------------------------------------ */

void get_timer(const struct timer *timer, struct itimerspec *value)
{
    struct clock_moment moment;
    look(&moment);
    int64_t left_ns = 0;
    if (timer->until_ns != CLOCK_FOREVER) /* an armed timer has at least a nanosecond left */
        left_ns = timer->until_ns > moment.virtual_ns ? timer->until_ns - moment.virtual_ns : 1;
    *value = (struct itimerspec){.it_interval = to_timespec(timer->interval_ns), .it_value = to_timespec(left_ns)};
}

bool set_timer(struct timer *timer, clockid_t clock, bool is_absolute, const struct itimerspec *value)
{
    int64_t value_ns = to_ns(&value->it_value);
    struct clock_moment moment;
    timer->interval_ns = to_ns(&value->it_interval);
    timer->n_overruns = 0;
    timer->is_pending = false;
    if (value_ns == 0)
        timer->until_ns = CLOCK_FOREVER;
    else
        timer->until_ns = is_absolute ? value_ns - page->base_ns[clock] : after(value_ns);
    look(&moment);
    bool is_first = timer->until_ns != CLOCK_FOREVER && !atomic_exchange(&were_armed, true);
    /* While time stands, the next change of the clock wakes the helper in time. */
    return is_first || (timer->until_ns != CLOCK_FOREVER && !(moment.is_frozen && timer->until_ns > moment.virtual_ns));
}

bool is_valid_itimerspec(const struct itimerspec *value)
{
    return is_valid(&value->it_value) && is_valid(&value->it_interval);
}

/* --- expiring ----------------------------------------------------------------------------------------------------- */

struct callback {
    void (*function)(union sigval);
    union sigval value;
    _Atomic uint32_t has_started;
};

/* SIGEV_THREAD: one thread for each expiration. It has a slot before the helper parks, so the step waits for it. */
static void *call_back(void *arguments)
{
    struct callback *shared = arguments;
    struct callback own = {.function = shared->function, .value = shared->value};
    this_thread();
    atomic_store(&shared->has_started, 1);
    clock_futex(&shared->has_started, FUTEX_WAKE, 1, NULL);
    sigset_t none;
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
    own.function(own.value);
    return NULL;
}

static void start_callback(const struct timer *timer)
{
    struct callback callback = {.function = timer->event.sigev_notify_function, .value = timer->event.sigev_value};
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    if (timer->stack_bytes != 0)
        pthread_attr_setstacksize(&attributes, timer->stack_bytes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, call_back, &callback) == 0)
        while (!atomic_load(&callback.has_started))
            clock_futex_wait(&callback.has_started, 0, CHECK_NS);
    pthread_attr_destroy(&attributes);
}

/* Return whether a signal is pending for the process (tid 0) or a thread. The helper blocks all signals, so
 * sigpending gives those of the process. */
static bool is_signal_pending(int number, int tid)
{
    if (tid == 0) {
        sigset_t pending;
        return sigpending(&pending) == 0 && sigismember(&pending, number) == 1;
    }
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n_bytes = fd < 0 ? -1 : clock_call(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0)
        clock_call(SYS_close, fd);
    if (n_bytes <= 0)
        return false;
    text[n_bytes] = 0;
    const char *found = strstr(text, "\nSigPnd:\t");
    return found != NULL && (strtoull(found + strlen("\nSigPnd:\t"), NULL, 16) >> (number - 1) & 1);
}

static int target_of(const struct timer *timer)
{
    return timer->event.sigev_notify == SIGEV_THREAD_ID ? timer->event._sigev_un._tid : 0;
}

/* A signal that is still pending takes the new expirations up as its overrun. */
static void send_signal(struct timer *timer, int64_t n_expired)
{
    int tid = target_of(timer), number = timer->event.sigev_signo;
    if (timer->is_pending && is_signal_pending(number, tid)) {
        timer->n_overruns += n_expired;
        return;
    }
    timer->n_overruns = n_expired - 1;
    timer->is_pending = true;
    siginfo_t info = {.si_signo = number, .si_code = SI_TIMER};
    info.si_timerid = (int)(timer - timers) + FIRST_ID;
    info.si_overrun = get_overrun(timer);
    info.si_value = timer->event.sigev_value;
    pid_t pid = getpid();
    if (tid != 0)
        clock_call(SYS_rt_tgsigqueueinfo, pid, tid, number, &info);
    else
        clock_call(SYS_rt_sigqueueinfo, pid, number, &info);
}

int get_overrun(const struct timer *timer)
{
    return timer->n_overruns > INT_MAX ? INT_MAX : (int)timer->n_overruns;
}

static int64_t count_expirations(struct timer *timer, int64_t now_ns)
{
    int64_t n_expired = 1;
    if (timer->interval_ns > 0) {
        n_expired += (now_ns - timer->until_ns) / timer->interval_ns;
        timer->until_ns += n_expired * timer->interval_ns;
    } else {
        timer->until_ns = CLOCK_FOREVER;
    }
    return n_expired;
}

/* Expire one timer that is due; false if none is. */
static bool fire_one(int64_t now_ns, struct timer *callback)
{
    struct timer *due = NULL;
    for (int i = 0; i < N_TIMERS; i++)
        if (timers[i].kind != TIMER_FREE && timers[i].until_ns <= now_ns &&
            (due == NULL || timers[i].until_ns < due->until_ns))
            due = &timers[i];
    if (due == NULL)
        return false;
    int64_t n_expired = count_expirations(due, now_ns);
    if (due->kind == TIMER_FILE)
        expire_timer_file(due, n_expired);
    else if (due->kind == TIMER_ALARM)
        kill(getpid(), SIGALRM);
    else if (due->event.sigev_notify == SIGEV_THREAD)
        *callback = *due;
    else if (due->event.sigev_notify != SIGEV_NONE)
        send_signal(due, n_expired);
    return true;
}

bool fire_timers(int64_t now_ns)
{
    bool is_any_due = false, is_due = true;
    while (is_due) {
        struct timer callback = {.kind = TIMER_FREE};
        sigset_t before;
        lock_timers(&before);
        is_due = fire_one(now_ns, &callback);
        unlock_timers(&before);
        is_any_due = is_any_due || is_due;
        if (callback.kind != TIMER_FREE) /* without the lock, as it allocates memory */
            start_callback(&callback);
    }
    return is_any_due;
}

int64_t next_timer_ns(void)
{
    int64_t next_ns = CLOCK_FOREVER;
    sigset_t before;
    lock_timers(&before);
    for (int i = 0; i < N_TIMERS; i++)
        if (timers[i].kind != TIMER_FREE && timers[i].until_ns < next_ns)
            next_ns = timers[i].until_ns;
    unlock_timers(&before);
    return next_ns;
}

/* A new process has no timers (man fork), but it shares the files of timers with its parent, which expires them. */
void reset_timers(void)
{
    atomic_flag_clear(&is_locked);
    atomic_store(&were_armed, false);
    for (int i = 0; i < N_TIMERS; i++) {
        timers[i].until_ns = CLOCK_FOREVER;
        timers[i].interval_ns = 0;
        if (timers[i].kind == TIMER_SIGNAL)
            timers[i].kind = TIMER_FREE;
    }
}

/* --- setitimer, alarm --------------------------------------------------------------------------------------------- */

static void *real_function(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static struct itimerspec from_itimerval(const struct itimerval *value)
{
    struct itimerspec precise = {{value->it_interval.tv_sec, value->it_interval.tv_usec * 1000},
                                 {value->it_value.tv_sec, value->it_value.tv_usec * 1000}};
    return precise;
}

static struct itimerval to_itimerval(const struct itimerspec *precise)
{
    /* Rounded up: 0 means that the timer is not armed. */
    struct timespec left = to_timespec(to_ns(&precise->it_value) + 999);
    return (struct itimerval){{precise->it_interval.tv_sec, precise->it_interval.tv_nsec / 1000},
                              {left.tv_sec, left.tv_nsec / 1000}};
}

PUBLIC int setitimer(__itimer_which_t which, const struct itimerval *restrict value, struct itimerval *restrict old)
{
    if (!is_attached() || which != ITIMER_REAL)
        return (int)clock_result(clock_call(SYS_setitimer, which, value, old));
    struct itimerspec precise = value == NULL ? (struct itimerspec){0} : from_itimerval(value), before_precise;
    if (!is_valid_itimerspec(&precise)) {
        errno = EINVAL;
        return -1;
    }
    sigset_t before;
    bool has_helper = start_helper();
    lock_timers(&before);
    get_timer(ITIMER, &before_precise);
    bool is_urgent = set_timer(ITIMER, CLOCK_MONOTONIC, false, &precise);
    unlock_timers(&before);
    if (old != NULL)
        *old = to_itimerval(&before_precise);
    if (is_urgent && has_helper)
        await_helper();
    return 0;
}

PUBLIC int getitimer(__itimer_which_t which, struct itimerval *value)
{
    if (!is_attached() || which != ITIMER_REAL)
        return (int)clock_result(clock_call(SYS_getitimer, which, value));
    struct itimerspec precise;
    sigset_t before;
    lock_timers(&before);
    get_timer(ITIMER, &precise);
    unlock_timers(&before);
    *value = to_itimerval(&precise);
    return 0;
}

PUBLIC unsigned int alarm(unsigned int seconds)
{
    struct itimerval value = {{0, 0}, {seconds, 0}}, old;
    if (setitimer(ITIMER_REAL, &value, &old) != 0)
        return 0;
    unsigned int left_s = (unsigned int)old.it_value.tv_sec;
    return left_s + (old.it_value.tv_usec >= 500000 || (left_s == 0 && old.it_value.tv_usec > 0));
}

PUBLIC useconds_t ualarm(useconds_t first_us, useconds_t interval_us)
{
    struct itimerval value = {{interval_us / 1000000, interval_us % 1000000}, {first_us / 1000000, first_us % 1000000}};
    struct itimerval old;
    if (setitimer(ITIMER_REAL, &value, &old) != 0)
        return (useconds_t)-1;
    return (useconds_t)(old.it_value.tv_sec * 1000000 + old.it_value.tv_usec);
}

/* --- POSIX timers ------------------------------------------------------------------------------------------------- */

bool is_timer_clock(clockid_t clock)
{
    return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME ||
           clock == CLOCK_REALTIME_ALARM || clock == CLOCK_BOOTTIME_ALARM || clock == CLOCK_TAI;
}

/* NULL: it is a timer of the kernel, as one of a CPU time. */
static struct timer *from_id(timer_t id)
{
    intptr_t i = (intptr_t)id - FIRST_ID;
    return i > 0 && i < N_TIMERS && timers[i].kind == TIMER_SIGNAL ? &timers[i] : NULL;
}

struct timer *take_timer(enum timer_kind kind, clockid_t clock)
{
    struct timer *timer = find_timer(TIMER_FREE, NULL, 0);
    if (timer != NULL)
        *timer = (struct timer){.kind = kind, .clock = clock, .until_ns = CLOCK_FOREVER, .own_fd = -1, .fd = -1};
    return timer;
}

static bool is_valid_event(const struct sigevent *event)
{
    bool has_signal = event->sigev_notify == SIGEV_SIGNAL || event->sigev_notify == SIGEV_THREAD_ID;
    return event->sigev_notify == SIGEV_NONE || event->sigev_notify == SIGEV_THREAD ||
           (has_signal && event->sigev_signo > 0 && event->sigev_signo <= SIGRTMAX);
}

PUBLIC int timer_create(clockid_t clock, struct sigevent *restrict event, timer_t *restrict id)
{
    if (!is_attached() || !is_timer_clock(clock)) {
        int (*create)(clockid_t, struct sigevent *, timer_t *) = real_function("timer_create");
        return create(clock, event, id);
    }
    sigset_t before;
    struct sigevent standard = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    if (event != NULL && !is_valid_event(event)) {
        errno = EINVAL;
        return -1;
    }
    lock_timers(&before);
    struct timer *timer = take_timer(TIMER_SIGNAL, clock);
    if (timer != NULL) {
        *id = (timer_t)(FIRST_ID + (timer - timers));
        standard.sigev_value.sival_int = FIRST_ID + (int)(timer - timers);
        timer->event = event != NULL ? *event : standard;
        if (timer->event.sigev_notify == SIGEV_THREAD && timer->event.sigev_notify_attributes != NULL)
            pthread_attr_getstacksize(timer->event.sigev_notify_attributes, &timer->stack_bytes);
    }
    unlock_timers(&before);
    errno = timer != NULL ? errno : EAGAIN;
    return timer != NULL ? 0 : -1;
}

PUBLIC int timer_settime(timer_t id, int flags, const struct itimerspec *restrict value, struct itimerspec *restrict old)
{
    if (!is_attached() || from_id(id) == NULL) {
        int (*settime)(timer_t, int, const struct itimerspec *, struct itimerspec *) = real_function("timer_settime");
        return settime(id, flags, value, old);
    }
    if (!is_valid_itimerspec(value)) {
        errno = EINVAL;
        return -1;
    }
    struct timer *timer = from_id(id);
    struct itimerspec before_value;
    sigset_t before;
    bool has_helper = start_helper();
    lock_timers(&before);
    get_timer(timer, &before_value);
    bool is_urgent = set_timer(timer, timer->clock, flags & TIMER_ABSTIME, value);
    unlock_timers(&before);
    if (old != NULL)
        *old = before_value;
    if (is_urgent && has_helper)
        await_helper();
    return 0;
}

PUBLIC int timer_gettime(timer_t id, struct itimerspec *value)
{
    if (!is_attached() || from_id(id) == NULL) {
        int (*gettime)(timer_t, struct itimerspec *) = real_function("timer_gettime");
        return gettime(id, value);
    }
    sigset_t before;
    lock_timers(&before);
    get_timer(from_id(id), value);
    unlock_timers(&before);
    return 0;
}

PUBLIC int timer_getoverrun(timer_t id)
{
    if (!is_attached() || from_id(id) == NULL) {
        int (*getoverrun)(timer_t) = real_function("timer_getoverrun");
        return getoverrun(id);
    }
    return get_overrun(from_id(id));
}

PUBLIC int timer_delete(timer_t id)
{
    if (!is_attached() || from_id(id) == NULL) {
        int (*delete)(timer_t) = real_function("timer_delete");
        return delete (id);
    }
    sigset_t before;
    lock_timers(&before);
    from_id(id)->kind = TIMER_FREE;
    unlock_timers(&before);
    return 0;
}
