/* Waiting in game time.
 *
 * A thread waits for its handles and messages, and for the end of the generation, after which it looks at the clock
 * again. It parks in the next generation only when it has found, after it has seen this generation, that none of its
 * handles is signalled: the end of the generation is the last of the handles, and a wait returns the first that is
 * signalled. Messages come after it, so they are checked again. At the entry a thread need not check, because the
 * controller's proof relies on threads that have been parked before (control.c).
 */
#include "game.h"

/* How long a timer of high resolution takes at most until it is signalled; others are signalled at once. */
#define SIGNAL_MS 20
/* Results of wait_once beside those of the system. */
#define ENDED 0xfffffffeu
#define LATE 0xfffffffdu

SMALL int64_t after_ms(DWORD ms)
{
    if (ms == INFINITE)
        return CLOCK_FOREVER;
    struct clock_moment moment;
    clock_look(page, &moment);
    return moment.virtual_ns + ms * CLOCK_MS;
}

static DWORD wait_really(const struct wait *wait, const HANDLE *handles, DWORD n, DWORD ms)
{
    if (wait->messages != 0)
        return real.wait_for_messages(n, handles, ms, wait->messages, wait->flags);
    if (n == 0)
        return SleepEx(ms, wait->is_alertable) == WAIT_IO_COMPLETION ? WAIT_IO_COMPLETION : WAIT_TIMEOUT;
    return WaitForMultipleObjectsEx(n, handles, wait->is_all, ms, wait->is_alertable);
}

static int64_t deadline_of(const struct wait *wait)
{
    int64_t until_ns = earliest_timer(wait->n, wait->handles);
    if (wait->messages & QS_TIMER) {
        int64_t timer_ns = earliest_window_timer();
        until_ns = timer_ns < until_ns ? timer_ns : until_ns;
    }
    return until_ns < wait->until_ns ? until_ns : wait->until_ns;
}

/* Signal the timers that are due; whether any was. */
static bool signal_due(const struct wait *wait, int64_t now_ns)
{
    bool is_signalled = signal_due_timers(wait->n, wait->handles, now_ns);
    if (wait->messages & QS_TIMER && post_due_window_timers(now_ns))
        is_signalled = true;
    return is_signalled;
}

/* Wait for all handles, or for as many as there can be, so that the end of the generation is not among them. */
static DWORD wait_in_slices(const struct wait *wait, struct thread *thread)
{
    for (;;) {
        struct clock_moment moment;
        clock_look(page, &moment);
        check_owner(moment.real_ns);
        bool is_over = moment.virtual_ns >= wait->until_ns;
        signal_due(wait, moment.virtual_ns);
        DWORD result = wait_really(wait, wait->handles, wait->n, 0);
        if (result != WAIT_TIMEOUT || is_over)
            return result;
        park(thread, &moment, CLOCK_WAIT_THREAD);
        result = wait_really(wait, wait->handles, wait->n, SLICE_MS);
        if (result != WAIT_TIMEOUT)
            return result;
        if (moment.is_frozen)
            answer_messages();
    }
}

/* A thread that sleeps does not take messages. While time stands it may sleep for long, and windows that send it messages
 * would wait as long: the procedures of its windows are called, but posted messages stay where they are. */
SMALL void answer_messages(void)
{
    struct thread *thread = this_thread();
    MSG message;
    if (!thread->has_queue)
        return;
    unpark(thread);
    real.peek_w(&message, NULL, 0, 0, PM_NOREMOVE | PM_QS_SENDMESSAGE);
}

/* Wait until the end of the generation, or as long as the clock's line says, then ENDED or LATE. */
static DWORD wait_once(const struct wait *wait, HANDLE *handles, const struct clock_moment *moment, int64_t until_ns)
{
    handles[wait->n] = end_of(view, moment->generation);
    DWORD result = wait_really(wait, handles, wait->n + 1, to_wait_ms(real_time_until_ns(moment, until_ns)));
    /* Messages come after the handles. */
    if (wait->messages != 0 && result == WAIT_OBJECT_0 + wait->n + 1)
        return WAIT_OBJECT_0 + wait->n;
    if (result == WAIT_OBJECT_0 + wait->n)
        return ENDED;
    if (result != WAIT_TIMEOUT)
        return result;
    check_owner(clock_real_ns());
    if (moment->is_frozen)
        answer_messages();
    return LATE; /* a timer may have been set meanwhile */
}

static DWORD wait_with_end(const struct wait *wait, struct thread *thread)
{
    HANDLE handles[MAXIMUM_WAIT_OBJECTS];
    enum clock_wait kind = wait->messages ? CLOCK_WAIT_FILE : wait->n ? CLOCK_WAIT_THREAD : CLOCK_WAIT_TIME;
    bool needs_check = false;
    for (DWORD i = 0; i < wait->n; i++)
        handles[i] = wait->handles[i];
    for (;;) {
        struct clock_moment moment;
        clock_look(page, &moment);
        bool is_over = moment.virtual_ns >= wait->until_ns;
        DWORD result = WAIT_TIMEOUT;
        if (signal_due(wait, moment.virtual_ns))
            result = wait_really(wait, wait->handles, wait->n, SIGNAL_MS);
        else if (is_over || needs_check)
            result = wait_really(wait, wait->handles, wait->n, 0);
        if (result != WAIT_TIMEOUT || is_over)
            return result;
        park(thread, &moment, kind);
        result = wait_once(wait, handles, &moment, deadline_of(wait));
        if (result != ENDED && result != LATE)
            return result;
        needs_check = kind == CLOCK_WAIT_FILE || (kind == CLOCK_WAIT_THREAD && result == LATE);
    }
}

DWORD wait_until(const struct wait *wait)
{
    struct thread *thread = this_thread();
    DWORD n_most = wait->messages ? MAXIMUM_WAIT_OBJECTS - 2 : MAXIMUM_WAIT_OBJECTS - 1;
    bool is_all = wait->is_all || (wait->messages && (wait->flags & MWMO_WAITALL));
    DWORD result =
        (is_all && wait->n > 1) || wait->n > n_most ? wait_in_slices(wait, thread) : wait_with_end(wait, thread);
    DWORD error = GetLastError();
    unpark(thread);
    SetLastError(error);
    return result;
}

DWORD WINAPI our_sleep_ex(DWORD ms, BOOL is_alertable)
{
    /* Sleep(0) gives the processor to another thread. */
    if (ms == 0)
        return SleepEx(0, is_alertable);
    struct wait wait = {.is_alertable = is_alertable, .until_ns = after_ms(ms)};
    return wait_until(&wait) == WAIT_IO_COMPLETION ? WAIT_IO_COMPLETION : 0;
}

void WINAPI our_sleep(DWORD ms)
{
    our_sleep_ex(ms, FALSE);
}

DWORD WINAPI our_wait_many_ex(DWORD n, const HANDLE *handles, BOOL is_all, DWORD ms, BOOL is_alertable)
{
    struct wait wait = {n, handles, is_all, is_alertable, .until_ns = after_ms(ms)};
    return wait_until(&wait);
}

DWORD WINAPI our_wait_many(DWORD n, const HANDLE *handles, BOOL is_all, DWORD ms)
{
    return our_wait_many_ex(n, handles, is_all, ms, FALSE);
}

DWORD WINAPI our_wait_ex(HANDLE handle, DWORD ms, BOOL is_alertable)
{
    return our_wait_many_ex(1, &handle, FALSE, ms, is_alertable);
}

DWORD WINAPI our_wait(HANDLE handle, DWORD ms)
{
    return our_wait_many_ex(1, &handle, FALSE, ms, FALSE);
}

DWORD WINAPI our_wait_for_messages_ex(DWORD n, const HANDLE *handles, DWORD ms, DWORD messages, DWORD flags)
{
    note_queue();
    struct wait wait = {n, handles, .is_alertable = (flags & MWMO_ALERTABLE) != 0, .messages = messages,
                        .flags = flags, .until_ns = after_ms(ms)};
    return wait_until(&wait);
}

DWORD WINAPI our_wait_for_messages(DWORD n, const HANDLE *handles, BOOL is_all, DWORD ms, DWORD messages)
{
    return our_wait_for_messages_ex(n, handles, ms, messages, is_all ? MWMO_WAITALL : 0);
}
