/* The functions that are replaced, by their names. The last one, of XInput, has a number instead (pad.c). */
#ifndef SOULSLAB_HOOKS_H
#define SOULSLAB_HOOKS_H

#define HOOKS(HOOK)                                             \
    HOOK(QueryPerformanceCounter, our_counter)                  \
    HOOK(timeGetTime, our_tick_count)                           \
    HOOK(GetTickCount, our_tick_count)                          \
    HOOK(GetTickCount64, our_tick_count)                        \
    HOOK(GetSystemTimeAsFileTime, our_file_time)                \
    HOOK(GetSystemTimePreciseAsFileTime, our_file_time)         \
    HOOK(Sleep, our_sleep)                                      \
    HOOK(SleepEx, our_sleep_ex)                                 \
    HOOK(WaitForSingleObject, our_wait)                         \
    HOOK(WaitForSingleObjectEx, our_wait_ex)                    \
    HOOK(WaitForMultipleObjects, our_wait_many)                 \
    HOOK(WaitForMultipleObjectsEx, our_wait_many_ex)            \
    HOOK(MsgWaitForMultipleObjects, our_wait_for_messages)      \
    HOOK(MsgWaitForMultipleObjectsEx, our_wait_for_messages_ex) \
    HOOK(WaitOnAddress, our_wait_on_address)                    \
    HOOK(SleepConditionVariableSRW, our_sleep_with_lock)        \
    HOOK(SleepConditionVariableCS, our_sleep_with_section)      \
    HOOK(WakeConditionVariable, our_wake)                       \
    HOOK(WakeAllConditionVariable, our_wake_all)                \
    HOOK(PeekMessageA, our_peek_a)                              \
    HOOK(PeekMessageW, our_peek_w)                              \
    HOOK(GetMessageA, our_get_a)                                \
    HOOK(GetMessageW, our_get_w)                                \
    HOOK(SetWaitableTimer, our_set_timer)                       \
    HOOK(SetWaitableTimerEx, our_set_timer_ex)                  \
    HOOK(CancelWaitableTimer, our_cancel_timer)                 \
    HOOK(SetTimer, our_set_window_timer)                        \
    HOOK(KillTimer, our_kill_window_timer)                      \
    HOOK(timeSetEvent, our_set_event)                           \
    HOOK(timeKillEvent, our_kill_event)                         \
    HOOK(GetProcAddress, our_proc_address)                      \
    HOOK(XInputGetState, our_pad_state)                         \
    HOOK(XInputSetState, our_pad_motors)                        \
    HOOK(XInputGetCapabilities, our_pad_abilities)

#define HOOK_NUMBER(name, replacement) HOOK_##name,
enum { HOOKS(HOOK_NUMBER) HOOK_XInputGetStateEx, N_HOOKS };

#endif
