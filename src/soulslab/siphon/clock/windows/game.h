/* What the files share that run in the game. */
#ifndef SOULSLAB_GAME_H
#define SOULSLAB_GAME_H

#include "views.h"

#include <mmsystem.h>

/* A thread of the game that has called one of our functions. */
struct thread {
    struct clock_slot *slot; /* NULL: all slots are in use */
    bool has_queue;          /* it takes messages, so a wait of it must not keep them waiting */
    /* Marks of the loop of this thread while time stands at epoch_ns (boundary.c). */
    int64_t epoch_ns;
    uint64_t first_look, last_read;
    bool has_read;
    uint32_t n_looks, n_same_reads, n_reads;
};

/* Functions of user32, which is not imported: loading it would change a game that does not use it. NULL until it is
 * loaded. The order is that of user_names (attach.c). */
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
};
extern struct real real;

/* The page; NULL in a process that is not a game. */
extern struct clock_page *page;
extern struct clock_view *view;

void allocate_thread_index(void);
struct thread *this_thread(void);
void release_thread(void);

/* Announce that this thread waits in this generation, in which time stands; and that it goes on. */
void park(struct thread *thread, uint32_t generation, enum clock_wait kind);
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
/* Game time in so many milliseconds; INFINITE is CLOCK_FOREVER. */
int64_t after_ms(DWORD ms);

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

/* The functions that replace those of the system (hooks.c has their names). */
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

/* A hook: the function that is found under this name in the libraries of the system is replaced by another one. */
struct hook {
    const char *name;
    void *replacement;
};
extern const struct hook hooks[];
extern const int n_hooks;

/* The same for the gamepad (pad.c): find the functions of the libraries that are loaded, and their replacements. */
void find_pad_functions(void);
void *replacement_of_pad(void *function);

#endif
