/* What the files share that run in the game. */
#ifndef SOULSLAB_GAME_H
#define SOULSLAB_GAME_H

#include "hooks.h"
#include "views.h"

#include <mmsystem.h>
#include <xinput.h>

/* A thread of the game that has called one of our functions. */
struct thread {
    struct clock_slot *slot; /* NULL: all slots are in use */
    bool has_queue;          /* it takes messages, so a wait of it must not keep them waiting */
    /* Marks of the loop of this thread while time stands at epoch_ns (boundary.c). */
    int64_t epoch_ns;
    uint64_t first_look, last_read;
    bool has_read;
    uint32_t n_looks, n_same_looks, n_same_reads, n_reads;
};

/* Functions of libraries that are not imported: loading user32 would change a game that does not use it, and those of
 * kernelbase are not in kernel32. NULL until the library is loaded. The order is that of real_names (attach.c). */
struct real {
    DWORD(WINAPI *wait_for_messages)(DWORD, const HANDLE *, DWORD, DWORD, DWORD);
    BOOL(WINAPI *peek_a)(MSG *, HWND, UINT, UINT, UINT);
    BOOL(WINAPI *peek_w)(MSG *, HWND, UINT, UINT, UINT);
    BOOL(WINAPI *get_a)(MSG *, HWND, UINT, UINT);
    BOOL(WINAPI *get_w)(MSG *, HWND, UINT, UINT);
    BOOL(WINAPI *post)(HWND, UINT, WPARAM, LPARAM);
    UINT_PTR(WINAPI *set_timer)(HWND, UINT_PTR, UINT, TIMERPROC);
    BOOL(WINAPI *kill_timer)(HWND, UINT_PTR);
    DWORD(WINAPI *thread_of_window)(HWND, DWORD *);
    BOOL(WINAPI *wait_on_address)(volatile void *, void *, SIZE_T, DWORD);
    void(WINAPI *wake_one)(void *);
    void(WINAPI *wake_all)(void *);
};
extern struct real real;

/* As GetCurrentProcess. */
#define THIS_PROCESS ((HANDLE)(intptr_t)-1)

/* The page; NULL in a process that is not a game. */
extern struct clock_page *page;
extern struct clock_view *view;

void allocate_thread_index(void);
struct thread *this_thread(void);
void release_thread(void);

/* Announce that this thread waits, in this generation if time stands in it; and that it goes on. */
void park(struct thread *thread, const struct clock_moment *moment, enum clock_wait kind);
void unpark(struct thread *thread);
/* In intervals of CHECK_MS: end the game, or let it run, if the controller has died. */
void check_owner(int64_t real_ns);

struct wait {
    DWORD n;
    const HANDLE *handles;
    bool is_all;
    bool is_alertable;
    DWORD messages;   /* QS_...: messages that end the wait; 0 for none */
    DWORD flags;      /* MWMO_... */
    int64_t until_ns; /* game time; CLOCK_FOREVER for none */
};
/* Wait in game time; the result is that of WaitForMultipleObjectsEx or MsgWaitForMultipleObjectsEx. */
DWORD wait_until(const struct wait *wait);
/* How long a wait that cannot end with the generation waits until it looks at the clock again. */
#define SLICE_MS 1
/* Game time in so many milliseconds; INFINITE is CLOCK_FOREVER. */
int64_t after_ms(DWORD ms);
void answer_messages(void);

/* A read of the time at a place of the program; returns the game time. */
int64_t read_time(uint64_t place);
/* Whether a thread that has found no message is held until one comes or time gets on. After that the caller looks again. */
bool hold_at_look(uint64_t place);
void after_message(void);
void note_queue(void);

/* Timers (timers.c). */
/* The earliest time at which a waitable timer among these handles is due. Signal those that are due; whether any was. */
int64_t earliest_timer(DWORD n, const HANDLE *handles);
bool signal_due_timers(DWORD n, const HANDLE *handles, int64_t now_ns);
/* The same for timers of this thread's windows. */
int64_t earliest_window_timer(void);
bool post_due_window_timers(int64_t now_ns);

/* The place of a call: its return address and the depth of its stack. */
#define PLACE() ((uint64_t)(uintptr_t)__builtin_return_address(0) + (uint64_t)(uintptr_t)__builtin_frame_address(0))

/* The functions that replace those of the system (hooks.h). */
BOOL WINAPI our_counter(LARGE_INTEGER *count);
ULONGLONG WINAPI our_tick_count(void);
void WINAPI our_file_time(FILETIME *time);
void WINAPI our_sleep(DWORD ms);
DWORD WINAPI our_sleep_ex(DWORD ms, BOOL is_alertable);
DWORD WINAPI our_wait(HANDLE handle, DWORD ms);
DWORD WINAPI our_wait_ex(HANDLE handle, DWORD ms, BOOL is_alertable);
DWORD WINAPI our_wait_many(DWORD n, const HANDLE *handles, BOOL is_all, DWORD ms);
DWORD WINAPI our_wait_many_ex(DWORD n, const HANDLE *handles, BOOL is_all, DWORD ms, BOOL is_alertable);
DWORD WINAPI our_wait_for_messages(DWORD n, const HANDLE *handles, BOOL is_all, DWORD ms, DWORD messages);
DWORD WINAPI our_wait_for_messages_ex(DWORD n, const HANDLE *handles, DWORD ms, DWORD messages, DWORD flags);
BOOL WINAPI our_wait_on_address(volatile void *address, void *seen, SIZE_T size, DWORD ms);
BOOL WINAPI our_sleep_with_lock(CONDITION_VARIABLE *variable, SRWLOCK *lock, DWORD ms, ULONG flags);
BOOL WINAPI our_sleep_with_section(CONDITION_VARIABLE *variable, CRITICAL_SECTION *section, DWORD ms);
void WINAPI our_wake(CONDITION_VARIABLE *variable);
void WINAPI our_wake_all(CONDITION_VARIABLE *variable);
BOOL WINAPI our_peek_a(MSG *message, HWND window, UINT first, UINT last, UINT flags);
BOOL WINAPI our_peek_w(MSG *message, HWND window, UINT first, UINT last, UINT flags);
BOOL WINAPI our_get_a(MSG *message, HWND window, UINT first, UINT last);
BOOL WINAPI our_get_w(MSG *message, HWND window, UINT first, UINT last);
BOOL WINAPI our_set_timer(HANDLE handle, const LARGE_INTEGER *due, LONG period_ms, PTIMERAPCROUTINE routine,
                          void *argument, BOOL wakes_computer);
BOOL WINAPI our_set_timer_ex(HANDLE handle, const LARGE_INTEGER *due, LONG period_ms, PTIMERAPCROUTINE routine,
                             void *argument, REASON_CONTEXT *context, ULONG tolerance_ms);
BOOL WINAPI our_cancel_timer(HANDLE handle);
UINT_PTR WINAPI our_set_window_timer(HWND window, UINT_PTR id, UINT period_ms, TIMERPROC procedure);
BOOL WINAPI our_kill_window_timer(HWND window, UINT_PTR id);
MMRESULT WINAPI our_set_event(UINT delay_ms, UINT resolution_ms, LPTIMECALLBACK callback, DWORD_PTR user, UINT flags);
MMRESULT WINAPI our_kill_event(UINT id);
FARPROC WINAPI our_proc_address(HMODULE module, const char *name);

/* Number of XInputGetStateEx, and the libraries of XInput. */
#define PAD_STATE_EX ((const char *)100)
#define N_PAD_LIBRARIES 3
/* The gamepad (pad.c), and the function of a library of XInput that a hook replaces; NULL for none. */
DWORD WINAPI our_pad_state(DWORD index, XINPUT_STATE *state);
DWORD WINAPI our_pad_state_ex(DWORD index, XINPUT_STATE *state);
DWORD WINAPI our_pad_motors(DWORD index, XINPUT_VIBRATION *motors);
DWORD WINAPI our_pad_abilities(DWORD index, DWORD flags, XINPUT_CAPABILITIES *abilities);
void *original_of_pad(int hook);

#endif
