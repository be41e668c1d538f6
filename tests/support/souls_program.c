/* A Windows program for the tests under Wine whose memory is that of Elden Ring or Dark Souls III, as their profiles say.
 *
 * What it holds is in two generated files (souls_program.py): souls_layout.h says what lies where, souls_code.S has the
 * code that the patterns are found in. The program fills its own cells and two heaps from that, points from one to the
 * other, and plays: a window, keys of each kind, 60 frames a second as QueryPerformanceCounter counts, and a speed of
 * its own. A frame may take longer, as in games whose step varies. With the argument pad it also reads a gamepad, whose
 * controls are those of the game and not those of the profile.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#include <xinput.h>

enum region { PROGRAM, LASTING, FIGHT };
enum kind { SECONDS, MILLISECONDS };

/* Bytes that are there from the start. */
struct piece {
    enum region region;
    unsigned at, size;
    const char *bytes;
};

/* A cell that leads to an object; a door leads into a fight from outside, and is null while the game loads. */
struct pointer {
    enum region region;
    unsigned at;
    enum region to_region;
    unsigned to;
    bool is_door;
};

struct place {
    const char *name;
    enum region region;
    unsigned at;
};

/* A number that goes on with time: of the game where it is scaled, else of the program. */
struct moving {
    enum region region;
    unsigned at;
    enum kind kind;
    bool is_scaled;
};

#include "souls_layout.h"

#define N_CONTROLS (sizeof controls / sizeof *controls)

/* Behind all that the profile knows; the tests find it there. A frame whose end is counted is there as a whole. */
struct counters {
    unsigned n_begun, n_done;
    unsigned longest_us; /* of the frames since it was set to 0 */
    unsigned steam_app;  /* what Steam or soulslab says that the program is; 0 for nothing */
    unsigned is_in_its_folder;
    unsigned n_presses[N_CONTROLS]; /* of each control of the pad */
};

#define FRAME_HZ 60
#define MOST_FRAMES_HZ 1000

extern volatile struct counters souls_counters;

static unsigned char *regions[3];
static long long frequency, started;
static bool is_loading;
static bool is_walking_by_pad;
static DWORD(WINAPI *read_pad)(DWORD, XINPUT_STATE *); /* NULL: it reads none */

static void *cell(enum region region, unsigned at)
{
    return regions[region] + at;
}

/* Where an attribute is; null if the profile has none of that name. */
static void *find(const char *name)
{
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++)
        if (strcmp(places[i].name, name) == 0)
            return cell(places[i].region, places[i].at);
    return NULL;
}

/* Where an attribute is that both games have; the program ends if the profile has none of that name. */
static void *attribute(const char *name)
{
    void *found = find(name);
    if (found == NULL)
        ExitProcess(3);
    return found;
}

static void point(bool is_open)
{
    for (unsigned i = 0; i < sizeof pointers / sizeof *pointers; i++) {
        const struct pointer *one = &pointers[i];
        uint64_t address = (uint64_t)cell(one->to_region, one->to);
        *(volatile uint64_t *)cell(one->region, one->at) = one->is_door && !is_open ? 0 : address;
    }
}

static void make_world(void)
{
    regions[PROGRAM] = (unsigned char *)GetModuleHandleW(NULL);
    regions[LASTING] = VirtualAlloc(NULL, LASTING_SIZE, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    regions[FIGHT] = VirtualAlloc(NULL, FIGHT_SIZE, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
    for (unsigned i = 0; i < sizeof pieces / sizeof *pieces; i++)
        memcpy(cell(pieces[i].region, pieces[i].at), pieces[i].bytes, pieces[i].size);
    point(true);
}

/* --- time ------------------------------------------------------------------------------------------------------ */

static long long now_us(void)
{
    LARGE_INTEGER count;
    QueryPerformanceCounter(&count);
    return (count.QuadPart - started) * 1000000 / frequency;
}

static void pass(double frame_s, double game_s)
{
    static double rest_ms;
    for (unsigned i = 0; i < sizeof movings / sizeof *movings; i++) {
        const struct moving *one = &movings[i];
        double passed_s = one->is_scaled ? game_s : frame_s;
        if (one->kind == SECONDS) {
            *(volatile float *)cell(one->region, one->at) += (float)passed_s;
        } else {
            double whole_ms = floor(passed_s * 1000.0 + rest_ms);
            rest_ms += passed_s * 1000.0 - whole_ms;
            *(volatile unsigned *)cell(one->region, one->at) += (unsigned)whole_ms;
        }
    }
    volatile float *last_s = find("game.frame_time_s");
    if (last_s != NULL)
        *last_s = (float)game_s;
    if (is_walking_by_pad || GetAsyncKeyState(KEY_FORWARD) & 0x8000)
        ((volatile float *)attribute("player.position"))[2] += (float)(WALK_M_S * game_s);
}

/* Frames per second: what the cap says where the profile has one and it is in force. */
static int frame_rate_hz(void)
{
    const volatile unsigned char *has_cap = find("game.has_fps");
    if (has_cap == NULL || !*has_cap)
        return FRAME_HZ;
    float cap_hz = *(volatile float *)attribute("game.fps");
    return cap_hz >= 1.0f && cap_hz <= MOST_FRAMES_HZ ? (int)cap_hz : FRAME_HZ;
}

/* Its colour is the number of frames, and the health that is left to the boss. */
static void draw(HWND window)
{
    int hp = *(volatile int *)attribute("boss.hp"), most = *(volatile int *)attribute("boss.max_hp");
    RECT all;
    GetClientRect(window, &all);
    HDC context = GetDC(window);
    unsigned n = souls_counters.n_done;
    HBRUSH brush = CreateSolidBrush(RGB(n & 255, n >> 8 & 255, most > 0 ? hp * 255ll / most : 0));
    FillRect(context, &all, brush);
    DeleteObject(brush);
    ReleaseDC(window, context);
    GdiFlush();
}

static bool reaches(int value, int wanted)
{
    return wanted == 0 || (wanted < 0 ? value <= wanted : value >= wanted);
}

static bool is_pressed(const XINPUT_GAMEPAD *pad, const XINPUT_GAMEPAD *control)
{
    return (pad->wButtons & control->wButtons) == control->wButtons && pad->bLeftTrigger >= control->bLeftTrigger &&
           pad->bRightTrigger >= control->bRightTrigger && reaches(pad->sThumbLX, control->sThumbLX) &&
           reaches(pad->sThumbLY, control->sThumbLY) && reaches(pad->sThumbRX, control->sThumbRX) &&
           reaches(pad->sThumbRY, control->sThumbRY);
}

static void hurt_boss(int damage)
{
    volatile int *hp = attribute("boss.hp");
    *hp = *hp > damage ? *hp - damage : 0;
}

static void lock_on(void)
{
    *(volatile unsigned char *)attribute("lock_on") ^= 1;
}

/* Count the presses of each control, and do what the keys do. */
static void play_by_pad(void)
{
    static bool were_down[N_CONTROLS];
    XINPUT_STATE state;
    if (read_pad == NULL || read_pad(0, &state) != ERROR_SUCCESS)
        return;
    for (unsigned i = 0; i < N_CONTROLS; i++) {
        bool is_down = is_pressed(&state.Gamepad, &controls[i]), is_new = is_down && !were_down[i];
        were_down[i] = is_down;
        souls_counters.n_presses[i] += is_new;
        if (is_new && i == PAD_LIGHT_ATTACK)
            hurt_boss(LIGHT_DAMAGE);
        if (is_new && i == PAD_HEAVY_ATTACK)
            hurt_boss(HEAVY_DAMAGE);
        if (is_new && i == PAD_LOCK_ON)
            lock_on();
    }
    is_walking_by_pad = were_down[PAD_FORWARD];
}

/* Make a frame if one is due; returns how long it is to the next, in us. */
static long long play(HWND window)
{
    static long long last_us, due_us;
    long long now = now_us();
    if (now >= due_us) {
        double frame_s = (now - last_us) / 1e6;
        souls_counters.n_begun++;
        play_by_pad();
        pass(frame_s, frame_s * *(volatile float *)attribute("game.speed"));
        long long whole_us = now_us() - last_us; /* until it has read the speed */
        if (whole_us > souls_counters.longest_us)
            souls_counters.longest_us = (unsigned)whole_us;
        souls_counters.n_done++;
        draw(window);
        last_us = now;
        int rate_hz = frame_rate_hz();
        long long n_due = now * rate_hz / 1000000 + 1;
        due_us = (n_due * 1000000 + rate_hz - 1) / rate_hz;
    }
    long long left_us = due_us - now_us();
    return left_us > 0 ? left_us : 0;
}

/* --- keys ------------------------------------------------------------------------------------------------------ */

/* Raw input of a key, which most games read. */
static void read_raw(HRAWINPUT handle)
{
    static bool was_down;
    RAWINPUT input;
    UINT size = sizeof input;
    if (GetRawInputData(handle, RID_INPUT, &input, &size, sizeof input.header) == (UINT)-1)
        return;
    if (input.header.dwType != RIM_TYPEKEYBOARD || input.data.keyboard.VKey != KEY_HEAVY_ATTACK)
        return;
    bool is_down = !(input.data.keyboard.Flags & RI_KEY_BREAK);
    if (is_down && !was_down)
        hurt_boss(HEAVY_DAMAGE);
    was_down = is_down;
}

static LRESULT CALLBACK answer(HWND window, UINT message, WPARAM word, LPARAM details)
{
    if (message == WM_DESTROY)
        PostQuitMessage(0);
    if (message == WM_INPUT)
        read_raw((HRAWINPUT)details);
    if (message == WM_KEYDOWN && !(details & (1 << 30))) {
        if (word == KEY_LIGHT_ATTACK)
            hurt_boss(LIGHT_DAMAGE);
        if (word == KEY_LOCK_ON)
            lock_on();
        if (word == VK_F9) { /* a loading screen, until it is pressed again */
            is_loading = !is_loading;
            point(!is_loading);
        }
    }
    return DefWindowProcW(window, message, word, details);
}

static HWND open_window(HINSTANCE program)
{
    WNDCLASSW class = {.lpfnWndProc = answer, .hInstance = program, .lpszClassName = WINDOW_TITLE};
    class.hCursor = LoadCursorW(NULL, (LPCWSTR)IDC_ARROW);
    RegisterClassW(&class);
    DWORD style = WS_POPUP | WS_VISIBLE;
    HWND window = CreateWindowW(WINDOW_TITLE, WINDOW_TITLE, style, 40, 30, 320, 180, NULL, NULL, program, NULL);
    RAWINPUTDEVICE keyboard = {.usUsagePage = 1, .usUsage = 6, .hwndTarget = window};
    RegisterRawInputDevices(&keyboard, 1, sizeof keyboard);
    return window;
}

/* Without this number a game of Steam starts its launcher and exits; it reads its files in its folder. */
static void note_start(void)
{
    char app[16] = "";
    GetEnvironmentVariableA("SteamAppId", app, sizeof app);
    souls_counters.steam_app = (unsigned)atoi(app);
    souls_counters.is_in_its_folder = GetFileAttributesW(PROGRAM_NAME) != INVALID_FILE_ATTRIBUTES;
}

int WINAPI WinMain(HINSTANCE program, HINSTANCE before, LPSTR arguments, int show)
{
    (void)before, (void)show;
    note_start();
    if (arguments[0])
        read_pad = (void *)GetProcAddress(LoadLibraryW(L"xinput1_4.dll"), "XInputGetState");
    timeBeginPeriod(1);
    make_world();
    HWND window = open_window(program);
    LARGE_INTEGER count;
    QueryPerformanceFrequency(&count);
    frequency = count.QuadPart;
    QueryPerformanceCounter(&count);
    started = count.QuadPart;
    MSG message;
    for (;;) {
        while (PeekMessageW(&message, NULL, 0, 0, PM_REMOVE)) {
            if (message.message == WM_QUIT)
                return 0;
            TranslateMessage(&message);
            DispatchMessageW(&message);
        }
        Sleep((DWORD)(play(window) / 1000 + 1));
    }
}
