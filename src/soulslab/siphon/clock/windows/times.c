/* Reading the time, and holding a thread that does nothing but that (docs/clock.md, "Windows").
 *
 * A loop that never sleeps repeats itself while time stands. It is held where it has repeatedly found no message at the
 * same place, and has read the time in between: then the whole body of the loop has run with the new time. A message ends the hold, so the window answers. A thread without messages is held after many reads of the time.
 */
#include "game.h"

/* Reads at changing places count less than reads at one place. */
#define MIXED_READS 10
/* So many looks with reads of the time between them hold a thread: at the place of the first one, and at any place. A loop
 * may look for messages once for input and once while it draws, and sleep after that. */
#define SAME_LOOKS 2
#define MANY_LOOKS 64
/* 1601 to 1970 in units of 100 ns. */
#define EPOCH_AS_FILE_TIME 116444736000000000ll

static struct thread *marks_of(const struct clock_moment *moment)
{
    struct thread *thread = this_thread();
    if (thread->epoch_ns != moment->virtual_ns) {
        thread->epoch_ns = moment->virtual_ns;
        thread->first_look = thread->last_read = 0;
        thread->n_looks = thread->n_same_looks = thread->n_same_reads = thread->n_reads = 0;
        thread->has_read = false;
    }
    return thread;
}

/* Wait until time gets on or, with a queue, a message comes; returns whether one did. */
static bool hold(struct thread *thread, struct clock_moment *moment)
{
    int64_t held_ns = moment->virtual_ns;
    bool has_message = false;
    while (moment->is_frozen && moment->virtual_ns == held_ns && !has_message) {
        HANDLE end = end_of(view, moment->generation);
        park(thread, moment, thread->has_queue ? CLOCK_WAIT_FILE : CLOCK_WAIT_TIME);
        DWORD result = thread->has_queue
                           ? real.wait_for_messages(1, &end, CHECK_MS, QS_ALLINPUT | QS_ALLPOSTMESSAGE, 0)
                           : WaitForMultipleObjectsEx(1, &end, FALSE, CHECK_MS, FALSE);
        has_message = result == WAIT_OBJECT_0 + 1;
        check_owner(clock_real_ns());
        clock_look(page, moment);
        if (thread->has_queue && !has_message) /* messages come after the end of the generation */
            has_message = real.wait_for_messages(0, NULL, 0, QS_ALLINPUT | QS_ALLPOSTMESSAGE, 0) == WAIT_OBJECT_0;
    }
    unpark(thread);
    return has_message;
}

static bool is_waiting_in_reads(const struct thread *thread)
{
    uint32_t limit = atomic_load_explicit(&page->spin_reads, memory_order_relaxed);
    return atomic_load_explicit(&page->boundary, memory_order_relaxed) != CLOCK_BOUNDARY_SLEEP &&
           (thread->n_same_reads >= limit || thread->n_reads / MIXED_READS >= limit);
}

int64_t read_time(uint64_t place)
{
    struct clock_moment moment;
    clock_look(page, &moment);
    if (!moment.is_frozen) {
        check_owner(moment.real_ns);
        return moment.virtual_ns;
    }
    DWORD error = GetLastError();
    struct thread *thread = marks_of(&moment);
    thread->n_same_reads = place == thread->last_read ? thread->n_same_reads + 1 : 1;
    thread->last_read = place;
    thread->n_reads++;
    thread->has_read = true;
    if (thread->slot != NULL)
        atomic_fetch_add_explicit(&thread->slot->n_reads, 1, memory_order_relaxed);
    if (is_waiting_in_reads(thread)) {
        hold(thread, &moment);
        thread->n_same_reads = thread->n_reads = 0;
    }
    SetLastError(error);
    return moment.virtual_ns;
}

bool hold_at_look(uint64_t place)
{
    struct clock_moment moment;
    clock_look(page, &moment);
    if (!moment.is_frozen || atomic_load_explicit(&page->boundary, memory_order_relaxed) == CLOCK_BOUNDARY_SLEEP)
        return false;
    struct thread *thread = marks_of(&moment);
    uint32_t *n = place == thread->first_look ? &thread->n_same_looks : &thread->n_looks;
    bool is_repeated = thread->has_read && ++*n >= (n == &thread->n_looks ? MANY_LOOKS : SAME_LOOKS);
    thread->has_read = false;
    if (!is_repeated) {
        if (thread->first_look == 0)
            thread->first_look = place;
        return false;
    }
    bool has_message = hold(thread, &moment);
    marks_of(&moment)->first_look = place;
    thread->has_read = has_message; /* if it turns out to be none for the program, it is held here again */
    return has_message;
}

void after_message(void)
{
    struct thread *thread = this_thread();
    thread->first_look = thread->last_read = 0;
    thread->n_looks = thread->n_same_looks = thread->n_same_reads = thread->n_reads = 0;
    thread->has_read = false;
}

void note_queue(void)
{
    this_thread()->has_queue = true;
}

BOOL WINAPI our_counter(LARGE_INTEGER *count)
{
    count->QuadPart = scale(page->base_ns[BASE_COUNTER] + read_time(PLACE()), counter_hz(), CLOCK_SECOND);
    return TRUE;
}

/* Also for the functions whose result has 32 bits: the others are ignored then. */
ULONGLONG WINAPI our_tick_count(void)
{
    return (ULONGLONG)((page->base_ns[BASE_BOOT] + read_time(PLACE())) / CLOCK_MS);
}

void WINAPI our_file_time(FILETIME *time)
{
    int64_t units = (page->base_ns[BASE_EPOCH] + read_time(PLACE())) / 100 + EPOCH_AS_FILE_TIME;
    __builtin_memcpy(time, &units, sizeof units);
}

struct filter {
    HWND window;
    UINT first, last;
};

static bool may_look(HWND window)
{
    note_queue();
    struct clock_moment moment;
    clock_look(page, &moment);
    post_due_window_timers(moment.virtual_ns);
    return window != (HWND)-1;
}

typedef BOOL(WINAPI *peek_function)(MSG *, HWND, UINT, UINT, UINT);

static BOOL peek(peek_function look, MSG *message, const struct filter *filter, UINT flags, uint64_t place)
{
    bool may_hold = may_look(filter->window);
    do {
        if (look(message, filter->window, filter->first, filter->last, flags)) {
            after_message();
            return TRUE;
        }
    } while (may_hold && hold_at_look(place));
    return FALSE;
}

BOOL WINAPI our_peek_a(MSG *message, HWND window, UINT first, UINT last, UINT flags)
{
    return peek(real.peek_a, message, &(struct filter){window, first, last}, flags, PLACE());
}

BOOL WINAPI our_peek_w(MSG *message, HWND window, UINT first, UINT last, UINT flags)
{
    return peek(real.peek_w, message, &(struct filter){window, first, last}, flags, PLACE());
}

typedef BOOL(WINAPI *get_function)(MSG *, HWND, UINT, UINT);

/* Wait until there is a message for this call, in game time because of the timers of windows. */
static BOOL get(peek_function look, get_function take, MSG *message, const struct filter *filter)
{
    struct wait wait = {.messages = QS_ALLINPUT | QS_ALLPOSTMESSAGE, .flags = MWMO_INPUTAVAILABLE,
                        .until_ns = CLOCK_FOREVER};
    note_queue();
    while (!look(message, filter->window, filter->first, filter->last, PM_NOREMOVE)) {
        if (wait_until(&wait) == WAIT_FAILED)
            break;
        wait.flags = 0;
    }
    after_message();
    return take(message, filter->window, filter->first, filter->last);
}

BOOL WINAPI our_get_a(MSG *message, HWND window, UINT first, UINT last)
{
    return get(real.peek_a, real.get_a, message, &(struct filter){window, first, last});
}

BOOL WINAPI our_get_w(MSG *message, HWND window, UINT first, UINT last)
{
    return get(real.peek_w, real.get_w, message, &(struct filter){window, first, last});
}
