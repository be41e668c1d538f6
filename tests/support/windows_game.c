/* A small Windows game for the tests under Wine: a window, a world behind pointers, keys, 60 ticks a second.
 *
 * Its argument says how its loop waits for the next tick, as games differ in that: sleep, spin, event, timer, condition,
 * address, thread, and with other sources of time: coarse (timeGetTime), tick_count (GetTickCount), multimedia
 * (timeSetEvent), window_timer (SetTimer), workers (each tick is computed by another thread), conditions (the same with
 * condition variables). With sources it waits by another function in each tick, and compares all sources of time, also that
 * of a library that it loads later. With the argument pad it sleeps, and reads a gamepad once in each tick, in the ways of games: by
 * an import of XInput, and by functions of libraries that it loads later.
 */
#include <stdbool.h>
#include <stddef.h>
#include <windows.h>
#include <mmsystem.h>
#include <xinput.h>

#define TICK_HZ 60
#define N_SOURCES 7
#define N_WAITS 9
#define MAX_CATCH_UP 5 /* like many games, it drops what it is later than that */

struct player {
    int hp;           /* 0x00 */
    unsigned ticks;   /* 0x04 */
    float x;          /* 0x08 */
    unsigned presses; /* 0x0c: WM_KEYDOWN, repeats left out */
    wchar_t name[16]; /* 0x10 */
    unsigned held;    /* 0x30: ticks for which GetAsyncKeyState said that D was down */
    unsigned most;    /* 0x34: ticks in one turn of the loop, at most */
    unsigned elapsed_ms; /* 0x38: time by the source of the loop, also that of ticks that it dropped */
    unsigned n_wrong;    /* 0x3c: sources of time that differed from the first one in a tick */
    XINPUT_GAMEPAD pad;   /* 0x40 */
    unsigned pad_results; /* 0x4c: of the functions for the first pad, 0 if all succeed */
    unsigned n_different; /* 0x50: ticks in which they reported different pads */
    unsigned n_others;    /* 0x54: successful queries of a second pad */
    unsigned pad_presses; /* 0x58: buttons that were up in the tick before */
    unsigned packet;      /* 0x5c */
    unsigned n_packets;   /* 0x60: changes of it */
    char gap[0x200];
    float frame_s;    /* 0x264: what the last tick took */
    char gap_2[0x4c];
    float before_s;   /* 0x2b4: and the one before */
    char gap_3[0x14];
    float speed;      /* 0x2cc */
    char nothing[64]; /* here is speed in another version */
};

struct world {
    unsigned long long day;
    struct player *player; /* 0x08 */
    int weather;           /* 0x10 */
};

static struct world *world;
static long long frequency, started;
static const char *loop = "sleep";
static HANDLE work, done;
static CRITICAL_SECTION order;
static CONDITION_VARIABLE changed = CONDITION_VARIABLE_INIT;
static unsigned n_ordered, n_computed;

/* The instruction that the profile's pattern looks for: mov rax, [rip + world]. */
static __attribute__((noinline)) struct player *the_player(void)
{
    struct player *found;
    __asm__ volatile("movq %1, %0\n\tcmpl $42, 0x10(%0)\n\tmovq 8(%0), %0" : "=a"(found) : "m"(world) : "cc");
    return found;
}

/* The code that holds the offset of a field: mov eax, [rbx + frame_s]; mov [rbx + before_s], eax. */
static __attribute__((noinline)) void keep_frame(struct player *player)
{
    __asm__ volatile("movl %c1(%0), %%eax\n\tmovl %%eax, %c2(%0)"
                     :
                     : "b"(player), "i"(offsetof(struct player, frame_s)), "i"(offsetof(struct player, before_s))
                     : "eax", "memory");
}

static bool is_loop(const char *name)
{
    return lstrcmpA(loop, name) == 0;
}

static long long now_us(void)
{
    LARGE_INTEGER count;
    if (is_loop("coarse"))
        return (timeGetTime() - (DWORD)started) * 1000ll;
    if (is_loop("tick_count"))
        return (GetTickCount() - (DWORD)started) * 1000ll;
    QueryPerformanceCounter(&count);
    return (count.QuadPart - started) * 1000000 / frequency;
}

static long long due_us(unsigned ticks)
{
    return (ticks + 1ll) * 1000000 / TICK_HZ;
}

static void draw(HWND window)
{
    struct player *player = the_player();
    RECT all;
    GetClientRect(window, &all);
    HDC context = GetDC(window);
    HBRUSH brush = CreateSolidBrush(RGB(player->hp, 255 - player->hp, 64));
    FillRect(context, &all, brush);
    DeleteObject(brush);
    ReleaseDC(window, context);
    GdiFlush();
}

/* Read the pad by three libraries. */
static void read_pad(struct player *player)
{
    static DWORD(WINAPI *by_number)(DWORD, XINPUT_STATE *), (WINAPI *by_name)(DWORD, XINPUT_STATE *);
    XINPUT_STATE first = {0}, second = {0}, third = {0}, other;
    XINPUT_CAPABILITIES abilities;
    if (by_name == NULL) {
        by_number = (void *)GetProcAddress(LoadLibraryW(L"xinput1_3.dll"), (LPCSTR)100);
        by_name = (void *)GetProcAddress(LoadLibraryW(L"xinput9_1_0.dll"), "XInputGetState");
    }
    player->pad_results = XInputGetState(0, &first) | by_number(0, &second) | by_name(0, &third) |
                          XInputGetCapabilities(0, XINPUT_FLAG_GAMEPAD, &abilities);
    player->n_others += XInputGetState(1, &other) == ERROR_SUCCESS;
    if (player->pad_results != ERROR_SUCCESS)
        return;
    second.Gamepad.wButtons &= (WORD)~0x400; /* only this function reports the Guide button */
    player->n_different += memcmp(&first, &second, sizeof first) != 0 || memcmp(&first, &third, sizeof first) != 0;
    player->pad_presses += (unsigned)__builtin_popcount(first.Gamepad.wButtons & ~player->pad.wButtons);
    player->n_packets += first.dwPacketNumber != player->packet;
    player->packet = first.dwPacketNumber;
    player->pad = first.Gamepad;
}

static unsigned long long to_ms(void(WINAPI *source)(FILETIME *))
{
    FILETIME time;
    source(&time);
    return ((unsigned long long)time.dwHighDateTime << 32 | time.dwLowDateTime) / 10000;
}

/* While time stands, all sources are read at one time, so the same time has passed since the last tick in all of them. */
static void compare_sources(struct player *player)
{
    static unsigned long long before[N_SOURCES];
    static ULONGLONG(WINAPI *of_library)(void);
    if (of_library == NULL) {
        wchar_t path[MAX_PATH];
        GetEnvironmentVariableW(L"WINDOWS_XINPUT", path, MAX_PATH);
        of_library = (void *)GetProcAddress(LoadLibraryW(path), "tick_count_of_library");
    }
    LARGE_INTEGER count;
    QueryPerformanceCounter(&count);
    unsigned long long now[N_SOURCES] = {
        count.QuadPart * 1000 / frequency, timeGetTime(), GetTickCount(), GetTickCount64(),
        to_ms(GetSystemTimeAsFileTime), to_ms(GetSystemTimePreciseAsFileTime), of_library(),
    };
    long long passed_ms = (long long)(now[0] - before[0]);
    for (int i = 0; i < N_SOURCES; i++) {
        long long difference = (long long)(now[i] - before[i]) - passed_ms;
        player->n_wrong += difference > 1 || difference < -1; /* they are counted in whole milliseconds */
        before[i] = now[i];
    }
}

/* Wait by one of the functions that wait. */
static void wait_in_turn(unsigned turn, DWORD ms, HANDLE event, HANDLE timer)
{
    HANDLE events[] = {event, timer};
    LARGE_INTEGER due = {.QuadPart = -10000ll * ms};
    switch (turn % N_WAITS) {
    case 0:
        SleepEx(ms, TRUE);
        break;
    case 1:
        WaitForSingleObject(event, ms);
        break;
    case 2:
        WaitForSingleObjectEx(event, ms, TRUE);
        break;
    case 3:
        WaitForMultipleObjects(2, events, FALSE, ms);
        break;
    case 4:
        WaitForMultipleObjects(2, events, TRUE, ms);
        break;
    case 5:
        WaitForMultipleObjectsEx(2, events, FALSE, ms, TRUE);
        break;
    case 6:
        MsgWaitForMultipleObjects(1, &event, FALSE, ms, QS_ALLINPUT);
        break;
    case 7:
        MsgWaitForMultipleObjectsEx(1, &event, ms, QS_ALLINPUT, MWMO_INPUTAVAILABLE);
        break;
    default:
        SetWaitableTimerEx(timer, &due, 0, NULL, NULL, NULL, 0);
        WaitForSingleObject(timer, INFINITE);
    }
}

/* Let another thread compute a tick, and wait for it. */
static void order_tick(void)
{
    if (work != NULL) {
        SetEvent(work);
        WaitForSingleObject(done, INFINITE);
    }
    if (is_loop("conditions")) {
        EnterCriticalSection(&order);
        n_ordered++;
        WakeConditionVariable(&changed);
        while (n_computed < n_ordered)
            SleepConditionVariableCS(&changed, &order, INFINITE);
        LeaveCriticalSection(&order);
    }
}

static DWORD WINAPI compute_by_conditions(void *unused)
{
    (void)unused;
    GetTickCount(); /* so that the clock knows this thread */
    EnterCriticalSection(&order);
    for (;;) {
        while (n_computed == n_ordered)
            SleepConditionVariableCS(&changed, &order, INFINITE);
        GetTickCount();
        n_computed++;
        WakeAllConditionVariable(&changed);
    }
    return 0;
}

/* Do the ticks that are due; returns how long it is to the next. */
static long long play(HWND window)
{
    static long long dropped_us;
    struct player *player = the_player();
    unsigned before = player->ticks;
    while (now_us() - dropped_us >= due_us(player->ticks)) {
        if (player->ticks - before == MAX_CATCH_UP) {
            dropped_us += now_us() - dropped_us - due_us(player->ticks);
            break;
        }
        order_tick();
        if (GetAsyncKeyState('D') & 0x8000) {
            player->x += 0.5f;
            player->held++;
        }
        if (is_loop("pad"))
            read_pad(player);
        if (is_loop("sources"))
            compare_sources(player);
        keep_frame(player);
        player->frame_s = 1.0f / TICK_HZ + (player->ticks & 1) / 1024.0f;
        player->ticks++;
    }
    if (player->ticks - before > player->most)
        player->most = player->ticks - before;
    player->elapsed_ms = (unsigned)(now_us() / 1000);
    if (player->ticks != before)
        draw(window);
    long long left_us = due_us(player->ticks) - (now_us() - dropped_us);
    return left_us > 0 ? left_us : 0;
}

static void wait_for_tick(long long left_us)
{
    static HANDLE timer, event;
    static SRWLOCK lock = SRWLOCK_INIT;
    static CONDITION_VARIABLE condition = CONDITION_VARIABLE_INIT;
    static volatile int never;
    if (event == NULL) {
        event = CreateEvent(NULL, FALSE, FALSE, NULL);
        if (is_loop("multimedia"))
            timeSetEvent(5, 0, (LPTIMECALLBACK)(void *)event, 0, TIME_PERIODIC | TIME_CALLBACK_EVENT_SET);
        timer = CreateWaitableTimer(NULL, FALSE, NULL);
    }
    DWORD left_ms = (DWORD)(left_us / 1000 + 1);
    LARGE_INTEGER due = {.QuadPart = -left_us * 10};
    if (is_loop("spin"))
        return;
    if (is_loop("event")) {
        MsgWaitForMultipleObjects(1, &event, FALSE, left_ms, QS_ALLINPUT);
    } else if (is_loop("timer")) {
        SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE);
        WaitForSingleObject(timer, INFINITE);
    } else if (is_loop("condition")) {
        AcquireSRWLockExclusive(&lock);
        SleepConditionVariableSRW(&condition, &lock, left_ms, 0);
        ReleaseSRWLockExclusive(&lock);
    } else if (is_loop("sources")) {
        wait_in_turn(the_player()->ticks, left_ms, event, timer);
    } else if (is_loop("multimedia")) {
        WaitForSingleObject(event, INFINITE);
    } else if (is_loop("coarse") || is_loop("tick_count")) {
        Sleep(1);
    } else if (is_loop("address")) {
        WaitOnAddress(&never, &(int){0}, sizeof never, left_ms);
    } else {
        Sleep(left_ms);
    }
}

static DWORD WINAPI play_in_thread(void *window)
{
    for (;;)
        wait_for_tick(play(window));
    return 0;
}

static DWORD WINAPI compute(void *unused)
{
    (void)unused;
    for (;;) {
        WaitForSingleObject(work, INFINITE);
        SetEvent(done);
    }
    return 0;
}

static LRESULT CALLBACK answer(HWND window, UINT message, WPARAM word, LPARAM details)
{
    if (message == WM_DESTROY)
        PostQuitMessage(0);
    if (message == WM_TIMER)
        play(window);
    if (message == WM_KEYDOWN && !(details & (1 << 30))) {
        world->player->presses++;
        if (word == 'H')
            world->player->hp -= 10;
        if (word == VK_ESCAPE)
            ExitProcess(7);
    }
    return DefWindowProcW(window, message, word, details);
}

static HWND open_window(HINSTANCE program)
{
    WNDCLASSW class = {.lpfnWndProc = answer, .hInstance = program, .lpszClassName = L"SmallGame"};
    class.hCursor = LoadCursorW(NULL, (LPCWSTR)IDC_ARROW);
    RegisterClassW(&class);
    return CreateWindowW(L"SmallGame", L"A small game", WS_POPUP | WS_VISIBLE, 100, 60, 320, 240, NULL, NULL, program, NULL);
}

static void make_world(void)
{
    LARGE_INTEGER count;
    QueryPerformanceFrequency(&count);
    frequency = count.QuadPart;
    QueryPerformanceCounter(&count);
    started = is_loop("coarse") ? timeGetTime() : is_loop("tick_count") ? GetTickCount() : count.QuadPart;
    struct world *made = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *made);
    made->player = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY, sizeof *made->player);
    made->player->hp = 200;
    made->player->speed = 1.0f;
    made->player->frame_s = 1.0f / TICK_HZ;
    lstrcpyW(made->player->name, L"Åsa of Wine");
    world = made;
}

int WINAPI WinMain(HINSTANCE program, HINSTANCE before, LPSTR arguments, int show)
{
    (void)before, (void)show;
    if (arguments[0])
        loop = arguments;
    timeBeginPeriod(1);
    make_world();
    HWND window = open_window(program);
    bool is_in_thread = is_loop("thread"), gets_messages = is_in_thread || is_loop("window_timer");
    if (is_in_thread)
        CreateThread(NULL, 0, play_in_thread, window, 0, NULL);
    if (is_loop("window_timer"))
        SetTimer(window, 1, 10, NULL);
    if (is_loop("workers")) {
        work = CreateEvent(NULL, FALSE, FALSE, NULL);
        done = CreateEvent(NULL, FALSE, FALSE, NULL);
        CreateThread(NULL, 0, compute, NULL, 0, NULL);
    }
    if (is_loop("conditions")) {
        InitializeCriticalSection(&order);
        CreateThread(NULL, 0, compute_by_conditions, NULL, 0, NULL);
    }
    MSG message;
    for (;;) {
        while (gets_messages ? GetMessageW(&message, NULL, 0, 0) : PeekMessageW(&message, NULL, 0, 0, PM_REMOVE)) {
            if (message.message == WM_QUIT)
                return 0;
            TranslateMessage(&message);
            DispatchMessageW(&message);
        }
        if (gets_messages)
            return 0;
        wait_for_tick(play(window));
    }
}
