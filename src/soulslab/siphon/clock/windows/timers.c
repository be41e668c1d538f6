/* Timers in game time: waitable timers, multimedia timers, and timers of windows.
 *
 * The timer of the system is set, but not to a time that comes. The thread that waits for it ends its wait at the game
 * time at which it is due, and lets the system signal it then. So no other thread is needed, and a thread that waits
 * for a timer is seen to wait for time.
 */
#include "game.h"

#define N_TIMERS 64
/* The longest time of SetTimer (USER_TIMER_MAXIMUM); a month for the others. */
#define NEVER_MS 0x7fffffff
#define NEVER_UNITS (-26784000000000ll)
#define EPOCH_AS_FILE_TIME 116444736000000000ll

struct timer {
    HANDLE handle; /* waitable timer or window; NULL for none */
    UINT_PTR id;   /* of a timer of a window */
    TIMERPROC procedure;
    DWORD tid;      /* thread of the window; 0 for a waitable timer */
    int64_t due_ns; /* CLOCK_FOREVER: the entry is free */
    int64_t period_ns;
};

static SRWLOCK lock = SRWLOCK_INIT;
static struct timer timers[N_TIMERS];
static int n_timers; /* entries ever used; without any, waits need not look */

static bool is_free(const struct timer *timer)
{
    return timer->due_ns == CLOCK_FOREVER || timer >= timers + n_timers;
}

/* Replace the timer with this handle and id, or add it; one that is due never is removed. */
static void set(const struct timer *wanted)
{
    AcquireSRWLockExclusive(&lock);
    struct timer *found = NULL;
    for (struct timer *timer = timers; timer < timers + N_TIMERS; timer++) {
        bool is_same = timer->handle == wanted->handle && timer->id == wanted->id;
        if (!is_free(timer) && is_same) {
            found = timer;
            break;
        }
        if (found == NULL && is_free(timer))
            found = timer;
    }
    if (found != NULL) {
        *found = *wanted;
        if (found >= timers + n_timers)
            n_timers = (int)(found - timers) + 1;
    }
    ReleaseSRWLockExclusive(&lock);
}

static bool concerns(const struct timer *timer, DWORD tid, DWORD n, const HANDLE *handles)
{
    if (timer->due_ns == CLOCK_FOREVER || timer->tid != tid)
        return false;
    for (DWORD i = 0; i < n; i++)
        if (handles[i] == timer->handle)
            return true;
    return tid != 0;
}

static int64_t earliest(DWORD tid, DWORD n, const HANDLE *handles)
{
    int64_t due_ns = CLOCK_FOREVER;
    for (int i = 0; i < n_timers; i++)
        if (concerns(&timers[i], tid, n, handles) && timers[i].due_ns < due_ns)
            due_ns = timers[i].due_ns;
    return due_ns;
}

static bool signal_due(DWORD tid, DWORD n, const HANDLE *handles, int64_t now_ns)
{
    /* An absolute time in the past: Windows signals the timer before the call returns, and the server of Wine before the
     * next request of this thread. A relative time passes first, however short it is. */
    static const LARGE_INTEGER past = {.QuadPart = 0};
    bool is_signalled = false;
    if (earliest(tid, n, handles) > now_ns)
        return false;
    AcquireSRWLockExclusive(&lock);
    for (int i = 0; i < n_timers; i++) {
        struct timer *timer = &timers[i];
        if (!concerns(timer, tid, n, handles) || timer->due_ns > now_ns)
            continue;
        if (tid != 0)
            real.post(timer->handle, WM_TIMER, timer->id, (LPARAM)timer->procedure);
        else
            SetWaitableTimer(timer->handle, &past, 0, NULL, NULL, FALSE);
        /* Periods that were missed are not made up for, as in the system. */
        timer->due_ns = timer->period_ns == 0 ? CLOCK_FOREVER : timer->due_ns + timer->period_ns;
        if (timer->due_ns <= now_ns)
            timer->due_ns = now_ns + timer->period_ns;
        is_signalled = true;
    }
    ReleaseSRWLockExclusive(&lock);
    return is_signalled;
}

int64_t earliest_timer(DWORD n, const HANDLE *handles)
{
    return earliest(0, n, handles);
}

bool signal_due_timers(DWORD n, const HANDLE *handles, int64_t now_ns)
{
    return signal_due(0, n, handles, now_ns);
}

int64_t earliest_window_timer(void)
{
    return n_timers == 0 ? CLOCK_FOREVER : earliest(GetCurrentThreadId(), 0, NULL);
}

bool post_due_window_timers(int64_t now_ns)
{
    return n_timers != 0 && signal_due(GetCurrentThreadId(), 0, NULL, now_ns);
}

/* --- waitable timers ------------------------------------------------------------------------------------------------ */

BOOL WINAPI our_set_timer(HANDLE handle, const LARGE_INTEGER *due, LONG period_ms, PTIMERAPCROUTINE routine,
                          void *argument, BOOL wakes_computer)
{
    static const LARGE_INTEGER never = {.QuadPart = NEVER_UNITS};
    /* A routine is called by the thread that sets the timer, so it cannot be signalled by another one. */
    if (due == NULL || routine != NULL)
        return SetWaitableTimer(handle, due, period_ms, routine, argument, wakes_computer);
    if (!SetWaitableTimer(handle, &never, 0, NULL, NULL, FALSE))
        return FALSE;
    struct clock_moment moment;
    clock_look(page, &moment);
    int64_t due_ns = due->QuadPart <= 0 ? moment.virtual_ns - due->QuadPart * 100
                                        : (due->QuadPart - EPOCH_AS_FILE_TIME) * 100 - page->base_ns[BASE_EPOCH];
    set(&(struct timer){.handle = handle, .due_ns = due_ns, .period_ns = period_ms * CLOCK_MS});
    return TRUE;
}

BOOL WINAPI our_set_timer_ex(HANDLE handle, const LARGE_INTEGER *due, LONG period_ms, PTIMERAPCROUTINE routine,
                             void *argument, REASON_CONTEXT *context, ULONG tolerance_ms)
{
    (void)context, (void)tolerance_ms;
    return our_set_timer(handle, due, period_ms, routine, argument, FALSE);
}

BOOL WINAPI our_cancel_timer(HANDLE handle)
{
    set(&(struct timer){.handle = handle, .due_ns = CLOCK_FOREVER});
    return CancelWaitableTimer(handle);
}

/* --- timers of windows ---------------------------------------------------------------------------------------------- */

UINT_PTR WINAPI our_set_window_timer(HWND window, UINT_PTR id, UINT period_ms, TIMERPROC procedure)
{
    UINT_PTR found = real.set_timer(window, id, NEVER_MS, procedure);
    if (found == 0)
        return 0;
    DWORD tid = window == NULL ? GetCurrentThreadId() : real.thread_of_window(window, NULL);
    if (period_ms < USER_TIMER_MINIMUM)
        period_ms = USER_TIMER_MINIMUM;
    struct timer timer = {window, window == NULL ? found : id, procedure, tid, after_ms(period_ms), period_ms * CLOCK_MS};
    set(&timer);
    return found;
}

BOOL WINAPI our_kill_window_timer(HWND window, UINT_PTR id)
{
    set(&(struct timer){.handle = window, .id = id, .due_ns = CLOCK_FOREVER});
    return real.kill_timer(window, id);
}

/* --- multimedia timers: a thread each, which sleeps in game time ------------------------------------------------------ */

#define N_MULTIMEDIA_TIMERS 16 /* also in the system */

static struct multimedia {
    _Atomic UINT id; /* 0: free */
    _Atomic bool is_started;
    UINT period_ms, user_flags;
    int64_t due_ns;
    LPTIMECALLBACK callback;
    DWORD_PTR user;
} multimedia[N_MULTIMEDIA_TIMERS];

static DWORD WINAPI run_multimedia(void *argument)
{
    struct multimedia *entry = argument, timer = *entry;
    UINT id = atomic_load(&entry->id);
    this_thread();
    atomic_store(&entry->is_started, true);
    for (;;) {
        wait_until(&(struct wait){.until_ns = timer.due_ns});
        if (atomic_load(&entry->id) != id)
            return 0;
        if (timer.user_flags & TIME_CALLBACK_EVENT_SET)
            SetEvent((HANDLE)timer.callback);
        else if (timer.user_flags & TIME_CALLBACK_EVENT_PULSE)
            PulseEvent((HANDLE)timer.callback);
        else
            timer.callback(id, 0, timer.user, 0, 0);
        if (!(timer.user_flags & TIME_PERIODIC))
            break;
        timer.due_ns += timer.period_ms * CLOCK_MS;
    }
    atomic_compare_exchange_strong(&entry->id, &id, 0);
    return 0;
}

MMRESULT WINAPI our_set_event(UINT delay_ms, UINT resolution_ms, LPTIMECALLBACK callback, DWORD_PTR user, UINT flags)
{
    static _Atomic UINT n_made;
    (void)resolution_ms;
    for (UINT i = 0; i < N_MULTIMEDIA_TIMERS; i++) {
        struct multimedia *entry = &multimedia[i];
        UINT none = 0, id = (atomic_fetch_add(&n_made, 1) + 1) * N_MULTIMEDIA_TIMERS + i;
        if (!atomic_compare_exchange_strong(&entry->id, &none, id))
            continue;
        entry->period_ms = delay_ms > 0 ? delay_ms : 1;
        entry->user_flags = flags;
        entry->due_ns = after_ms(delay_ms);
        entry->callback = callback;
        entry->user = user;
        atomic_store(&entry->is_started, false);
        HANDLE thread = CreateThread(NULL, 0, run_multimedia, entry, 0, NULL);
        if (thread == NULL) {
            atomic_store(&entry->id, 0);
            break;
        }
        CloseHandle(thread);
        /* Otherwise time could get on before its slot shows that it waits. */
        while (!atomic_load(&entry->is_started))
            SwitchToThread();
        return id;
    }
    return 0;
}

MMRESULT WINAPI our_kill_event(UINT id)
{
    UINT expected = id;
    bool is_known = id != 0 && atomic_compare_exchange_strong(&multimedia[id % N_MULTIMEDIA_TIMERS].id, &expected, 0);
    return is_known ? TIMERR_NOERROR : MMSYSERR_INVALPARAM;
}
