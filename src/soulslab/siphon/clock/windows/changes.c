/* Waits for a change by another thread: of the value at an address, or of a condition variable.
 *
 * The system cannot wait for such a change and for the end of the generation at once, so a wait looks at the clock in
 * slices. Condition variables are replaced as a whole, because one of the system would lose a wake-up
 * between two slices: the first bytes of the variable, 0 in a new one, count its wake-ups, and a wait is one for a change
 * of this number.
 */
#include "game.h"

BOOL WINAPI our_wait_on_address(volatile void *address, void *seen, SIZE_T size, DWORD ms)
{
    struct thread *thread = this_thread();
    int64_t until_ns = after_ms(ms);
    for (;;) {
        struct clock_moment moment;
        clock_look(page, &moment);
        check_owner(moment.real_ns);
        BOOL is_changed = real.wait_on_address(address, seen, size, 0);
        if (!is_changed && moment.virtual_ns < until_ns) {
            park(thread, &moment, CLOCK_WAIT_THREAD);
            /* While time runs, only the beginning of a pause has to be noticed. */
            is_changed = real.wait_on_address(address, seen, size, moment.is_frozen || ms != INFINITE ? SLICE_MS : CHECK_MS);
            if (!is_changed) {
                if (moment.is_frozen)
                    answer_messages();
                continue;
            }
        }
        DWORD error = GetLastError();
        unpark(thread);
        SetLastError(error);
        return is_changed;
    }
}

BOOL WINAPI our_sleep_with_lock(CONDITION_VARIABLE *variable, SRWLOCK *lock, DWORD ms, ULONG flags)
{
    bool is_shared = (flags & CONDITION_VARIABLE_LOCKMODE_SHARED) != 0;
    uint32_t n_wakes = atomic_load((_Atomic uint32_t *)variable);
    if (is_shared)
        ReleaseSRWLockShared(lock);
    else
        ReleaseSRWLockExclusive(lock);
    BOOL is_woken = our_wait_on_address(variable, &n_wakes, sizeof n_wakes, ms);
    DWORD error = GetLastError();
    if (is_shared)
        AcquireSRWLockShared(lock);
    else
        AcquireSRWLockExclusive(lock);
    SetLastError(error);
    return is_woken;
}

BOOL WINAPI our_sleep_with_section(CONDITION_VARIABLE *variable, CRITICAL_SECTION *section, DWORD ms)
{
    uint32_t n_wakes = atomic_load((_Atomic uint32_t *)variable);
    LeaveCriticalSection(section);
    BOOL is_woken = our_wait_on_address(variable, &n_wakes, sizeof n_wakes, ms);
    DWORD error = GetLastError();
    EnterCriticalSection(section);
    SetLastError(error);
    return is_woken;
}

void WINAPI our_wake(CONDITION_VARIABLE *variable)
{
    atomic_fetch_add((_Atomic uint32_t *)variable, 1);
    real.wake_one(variable);
}

void WINAPI our_wake_all(CONDITION_VARIABLE *variable)
{
    atomic_fetch_add((_Atomic uint32_t *)variable, 1);
    real.wake_all(variable);
}
