/* A Windows program for tests: it paints known pixels and records keys, buttons and movements.
 *
 * Commands are lines of standard input, each with one answer, a line of standard output. Windows are named by their
 * handles. A command is executed in the thread of the windows.
 *
 *   open X Y WIDTH HEIGHT TITLE     handle of a new visible window
 *   title WINDOW TITLE
 *   place WINDOW X Y WIDTH HEIGHT
 *   show WINDOW HOW                 ShowWindow: 0 hide, 6 minimise, 9 restore
 *   front WINDOW                    make it the foreground window
 *   paint WINDOW SEED               the pixels of `picture` in windows_painter.py
 *   events                          what arrived since the last call, including what is in the queue now
 *   raw                             the same for raw input (WM_INPUT)
 *   down                            virtual keys that are down, by GetAsyncKeyState
 *   pointer                         position of the pointer
 *   exists WINDOW
 *   destroy WINDOW
 *   hold                            handle no messages until "go"
 *   go
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#define MAX_ANSWER 65536
#define EXTENDED 0xe000

static char line[1024], events[MAX_ANSWER], raw_events[MAX_ANSWER], answer[MAX_ANSWER];
static HANDLE has_line, has_answer;
static bool is_over;

static void note(char *list, const char *kind, int code, int value)
{
    size_t length = strlen(list);
    snprintf(list + length, MAX_ANSWER - length, "%s %d %d,", kind, code, value);
}

/* A pixel is a hash of its position and the seed, so that a wrong position is detected. */
static unsigned pixel(unsigned x, unsigned y, unsigned seed)
{
    unsigned mixed = x * 0x9e3779b1u + y * 0x85ebca77u + seed * 0xc2b2ae3du;
    mixed ^= mixed >> 15;
    mixed *= 0x2c1b3c6du;
    mixed ^= mixed >> 13;
    return mixed & 0xffffff;
}

static void draw(HWND window, HDC context)
{
    RECT all;
    GetClientRect(window, &all);
    LONG_PTR seed = GetWindowLongPtrW(window, GWLP_USERDATA);
    if (seed == 0 || all.right == 0 || all.bottom == 0)
        return;
    unsigned *pixels = malloc(sizeof *pixels * all.right * all.bottom);
    for (int y = 0; y < all.bottom; y++)
        for (int x = 0; x < all.right; x++)
            pixels[y * all.right + x] = pixel(x, y, (unsigned)seed);
    BITMAPINFO about = {.bmiHeader = {.biSize = sizeof about.bmiHeader, .biPlanes = 1, .biBitCount = 32}};
    about.bmiHeader.biWidth = all.right;
    about.bmiHeader.biHeight = -all.bottom;
    SetDIBitsToDevice(context, 0, 0, all.right, all.bottom, 0, 0, 0, all.bottom, pixels, &about, DIB_RGB_COLORS);
    free(pixels);
}

static void handle_messages(void)
{
    MSG message;
    while (PeekMessageW(&message, NULL, 0, 0, PM_REMOVE))
        DispatchMessageW(&message);
}

static void paint(HWND window, int seed)
{
    SetWindowLongPtrW(window, GWLP_USERDATA, seed);
    HDC context = GetDC(window);
    draw(window, context);
    ReleaseDC(window, context);
    GdiFlush();
    /* Wine sends a window's drawing to the screen when there are no messages. Reading the screen back waits for it. */
    handle_messages();
    HDC screen = GetDC(NULL);
    GetPixel(screen, 0, 0);
    ReleaseDC(NULL, screen);
}

static void note_raw(HRAWINPUT handle)
{
    RAWINPUT input;
    UINT size = sizeof input;
    if (GetRawInputData(handle, RID_INPUT, &input, &size, sizeof input.header) == (UINT)-1)
        return;
    if (input.header.dwType == RIM_TYPEKEYBOARD) {
        const RAWKEYBOARD *key = &input.data.keyboard;
        note(raw_events, "key", key->MakeCode | (key->Flags & RI_KEY_E0 ? EXTENDED : 0), !(key->Flags & RI_KEY_BREAK));
    } else if (input.header.dwType == RIM_TYPEMOUSE) {
        const RAWMOUSE *mouse = &input.data.mouse;
        if (mouse->usButtonFlags)
            note(raw_events, "buttons", mouse->usButtonFlags, (short)mouse->usButtonData);
        if (mouse->lLastX || mouse->lLastY)
            note(raw_events, "move", mouse->lLastX, mouse->lLastY);
    }
}

static LRESULT CALLBACK on_message(HWND window, UINT message, WPARAM word, LPARAM details)
{
    PAINTSTRUCT part;
    int scan_code = (details >> 16 & 0xff) | (details & 1 << 24 ? EXTENDED : 0);
    int side = 3 + HIWORD(word);
    switch (message) {
    case WM_PAINT:
        draw(window, BeginPaint(window, &part));
        EndPaint(window, &part);
        return 0;
    case WM_INPUT:
        note_raw((HRAWINPUT)details);
        break;
    case WM_KEYDOWN:
    case WM_SYSKEYDOWN:
        note(events, word == VK_PAUSE ? "pause" : details & 1 << 30 ? "repeat" : "key", scan_code, 1);
        return 0;
    case WM_KEYUP:
    case WM_SYSKEYUP:
        note(events, word == VK_PAUSE ? "pause" : "key", scan_code, 0);
        return 0;
    case WM_LBUTTONDOWN:
    case WM_LBUTTONUP:
        note(events, "button", 1, message == WM_LBUTTONDOWN);
        return 0;
    case WM_RBUTTONDOWN:
    case WM_RBUTTONUP:
        note(events, "button", 2, message == WM_RBUTTONDOWN);
        return 0;
    case WM_MBUTTONDOWN:
    case WM_MBUTTONUP:
        note(events, "button", 3, message == WM_MBUTTONDOWN);
        return 0;
    case WM_XBUTTONDOWN:
    case WM_XBUTTONUP:
        note(events, "button", side, message == WM_XBUTTONDOWN);
        return TRUE;
    case WM_MOUSEWHEEL:
        note(events, "wheel", GET_WHEEL_DELTA_WPARAM(word), 1);
        return 0;
    }
    return DefWindowProcW(window, message, word, details);
}

static HWND open_window(int x, int y, int width, int height, const char *title)
{
    wchar_t wide[256];
    MultiByteToWideChar(CP_UTF8, 0, title, -1, wide, 256);
    HINSTANCE program = GetModuleHandleW(NULL);
    HWND window = CreateWindowW(L"Painter", wide, WS_POPUP | WS_VISIBLE, x, y, width, height, NULL, NULL, program, NULL);
    RAWINPUTDEVICE devices[] = {{1, 6, 0, window}, {1, 2, 0, window}};
    RegisterRawInputDevices(devices, 2, sizeof devices[0]);
    return window;
}

static void take(char *list)
{
    handle_messages();
    strcpy(answer, list);
    list[0] = 0;
}

static void list_down(void)
{
    for (int key = 1; key < 255; key++)
        if (GetAsyncKeyState(key) & 0x8000)
            sprintf(answer + strlen(answer), "%d ", key);
}

static bool is_holding;

static void execute(void)
{
    char command[32];
    unsigned long long handle = 0;
    int used = 0, values[4] = {0};
    POINT pointer;
    sscanf(line, "%31s %n", command, &used);
    const char *rest = line + used;
    answer[0] = 0;
    if (strcmp(command, "open") == 0) {
        sscanf(rest, "%d %d %d %d %n", &values[0], &values[1], &values[2], &values[3], &used);
        HWND window = open_window(values[0], values[1], values[2], values[3], rest + used);
        handle_messages();
        sprintf(answer, "%llu", (unsigned long long)(size_t)window);
        return;
    }
    sscanf(rest, "%llu %n", &handle, &used);
    sscanf(rest, "%*u %d %d %d %d", &values[0], &values[1], &values[2], &values[3]);
    HWND window = (HWND)(size_t)handle;
    if (strcmp(command, "title") == 0) {
        wchar_t wide[256];
        MultiByteToWideChar(CP_UTF8, 0, rest + used, -1, wide, 256);
        SetWindowTextW(window, wide);
    } else if (strcmp(command, "place") == 0) {
        SetWindowPos(window, NULL, values[0], values[1], values[2], values[3], SWP_NOZORDER | SWP_NOACTIVATE);
        handle_messages();
    } else if (strcmp(command, "show") == 0) {
        ShowWindow(window, values[0]);
        handle_messages();
    } else if (strcmp(command, "front") == 0) {
        SetForegroundWindow(window);
        /* The answer of the X server, so that its report of the focus is handled here, and not after another change. */
        GetCursorPos(&pointer);
        handle_messages();
    } else if (strcmp(command, "paint") == 0) {
        paint(window, values[0]);
    } else if (strcmp(command, "events") == 0) {
        take(events);
    } else if (strcmp(command, "raw") == 0) {
        take(raw_events);
    } else if (strcmp(command, "down") == 0) {
        list_down();
    } else if (strcmp(command, "pointer") == 0) {
        GetCursorPos(&pointer);
        sprintf(answer, "%ld %ld", pointer.x, pointer.y);
    } else if (strcmp(command, "exists") == 0) {
        sprintf(answer, "%d", IsWindow(window));
    } else if (strcmp(command, "destroy") == 0) {
        DestroyWindow(window);
    } else if (strcmp(command, "hold") == 0) {
        is_holding = true;
    } else if (strcmp(command, "go") == 0) {
        is_holding = false;
    } else {
        strcpy(answer, "unknown command");
    }
}

static DWORD WINAPI read_commands(void *nothing)
{
    (void)nothing;
    while (fgets(line, sizeof line, stdin) != NULL) {
        line[strcspn(line, "\r\n")] = 0;
        SetEvent(has_line);
        WaitForSingleObject(has_answer, INFINITE);
        puts(answer);
        fflush(stdout);
    }
    is_over = true;
    SetEvent(has_line);
    return 0;
}

int main(void)
{
    WNDCLASSW class = {.lpfnWndProc = on_message, .hInstance = GetModuleHandleW(NULL), .lpszClassName = L"Painter"};
    class.hCursor = LoadCursorW(NULL, (LPCWSTR)IDC_CROSS);
    RegisterClassW(&class);
    has_line = CreateEventW(NULL, FALSE, FALSE, NULL);
    has_answer = CreateEventW(NULL, FALSE, FALSE, NULL);
    CreateThread(NULL, 0, read_commands, NULL, 0, NULL);
    while (!is_over) {
        DWORD woken = is_holding ? WaitForSingleObject(has_line, INFINITE)
                                 : MsgWaitForMultipleObjects(1, &has_line, FALSE, INFINITE, QS_ALLINPUT);
        if (woken == WAIT_OBJECT_0) {
            if (is_over)
                break;
            execute();
            SetEvent(has_answer);
        } else {
            handle_messages();
        }
    }
    return 0;
}
