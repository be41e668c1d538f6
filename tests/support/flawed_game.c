/* A small game with a window whose time is exact, or flawed in a way that the tests of the verification ask for.
 *
 * Usage: flawed_game FLAW AT. It makes 60 ticks per second; A and D move a square, R begins a new game. FLAW:
 *   none     everything depends on keys and time only
 *   lost     the tick in which the key press number AT arrives is not counted
 *   doubled  the tick in which the key press number AT arrives is counted twice
 *   value    from tick AT of the game on, a value depends on the process
 *   pixels   from tick AT of the game on, 3 x 2 pixels at (10, 20) depend on the process
 *   motion   a thread counts wall time, which the clock library does not control
 *   restart  the game sets its count of ticks to 0 when it comes to AT
 *   over     the game ends at tick AT: the pointer to its state is null until R begins a new one
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Xlib, without its headers, which not every machine has. */
typedef struct Display Display;
Display *XOpenDisplay(const char *);
int XDefaultScreen(Display *);
unsigned long XRootWindow(Display *, int), XBlackPixel(Display *, int);
unsigned long XCreateSimpleWindow(Display *, unsigned long, int, int, unsigned, unsigned, unsigned, unsigned long,
                                  unsigned long);
int XSelectInput(Display *, unsigned long, long), XMapWindow(Display *, unsigned long), XPending(Display *);
int XNextEvent(Display *, void *), XSync(Display *, int), XClearWindow(Display *, unsigned long);
void *XCreateGC(Display *, unsigned long, unsigned long, void *);
int XSetForeground(Display *, void *, unsigned long);
int XFillRectangle(Display *, unsigned long, void *, int, int, unsigned, unsigned);
unsigned long XLookupKeysym(void *, int);
int XAutoRepeatOff(Display *);

enum { KEY_PRESS = 2, KEY_RELEASE = 3 };
#define PERIOD_NS (1000000000ll / 60)

struct game {
    int32_t ticks;     /* 0x00 */
    int32_t x;         /* 0x04 */
    int32_t n_presses; /* 0x08 */
    int32_t value;     /* 0x0c: 0, or what depends on the process */
    int32_t motion;    /* 0x10: counts wall time */
};

static struct game game;
struct game *state = &game;
static int is_down[256];

/* Sleep in wall time: the clock library does not see an instruction of the program. */
static void sleep_really(const struct timespec *pause)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_nanosleep), "D"(pause), "S"(NULL) : "rcx", "r11", "memory");
}

static void *count_wall_time(void *unused)
{
    struct timespec pause = {0, 20000000};
    for (;;) {
        sleep_really(&pause);
        __atomic_fetch_add(&game.motion, 1, __ATOMIC_SEQ_CST);
    }
    return unused;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

/* Handles all events; returns how many keys were pressed. */
static int handle_events(Display *display)
{
    int n = 0;
    while (XPending(display)) {
        union { int type; long space[24]; } event;
        XNextEvent(display, &event);
        if (event.type != KEY_PRESS && event.type != KEY_RELEASE)
            continue;
        int key = (int)XLookupKeysym(&event, 0) & 255;
        n += event.type == KEY_PRESS && !is_down[key] && key != 'r';
        if (event.type == KEY_PRESS && key == 'r' && !is_down[key]) {
            game.ticks = game.x = game.n_presses = game.value = 0;
            __atomic_store_n(&state, &game, __ATOMIC_SEQ_CST);
        }
        is_down[key] = event.type == KEY_PRESS;
    }
    return n;
}

static void draw(Display *display, unsigned long window, void *gc, unsigned long flaw)
{
    XClearWindow(display, window);
    XSetForeground(display, gc, 0xffffff);
    XFillRectangle(display, window, gc, ((game.x % 64) + 64) % 64, 4, 8, 8);
    XSetForeground(display, gc, flaw);
    XFillRectangle(display, window, gc, 10, 20, 3, 2);
    XSync(display, 0);
}

int main(int n_arguments, char **arguments)
{
    if (n_arguments != 3)
        return 2;
    const char *flaw = arguments[1];
    int at = atoi(arguments[2]);
    Display *display = XOpenDisplay(NULL);
    if (display == NULL)
        return 3;
    int screen = XDefaultScreen(display);
    unsigned long black = XBlackPixel(display, screen);
    unsigned long window = XCreateSimpleWindow(display, XRootWindow(display, screen), 0, 0, 80, 60, 0, black, black);
    void *gc = XCreateGC(display, window, 0, NULL);
    XAutoRepeatOff(display);
    XSelectInput(display, window, 3); /* KeyPressMask | KeyReleaseMask */
    XMapWindow(display, window);
    XSync(display, 0);
    pthread_t thread;
    if (strcmp(flaw, "motion") == 0)
        pthread_create(&thread, NULL, count_wall_time, NULL);
    int64_t next_ns = now_ns();
    for (;;) {
        int n = handle_events(display), is_flawed = n && game.n_presses < at && game.n_presses + n >= at;
        game.n_presses += n;
        game.ticks += is_flawed && strcmp(flaw, "lost") == 0 ? 0 : is_flawed && strcmp(flaw, "doubled") == 0 ? 2 : 1;
        game.x += is_down['d'] - is_down['a'];
        game.value = strcmp(flaw, "value") == 0 && game.ticks >= at ? getpid() : 0;
        if (strcmp(flaw, "restart") == 0 && game.ticks >= at)
            game.ticks = 0;
        if (strcmp(flaw, "over") == 0 && game.ticks >= at)
            __atomic_store_n(&state, NULL, __ATOMIC_SEQ_CST);
        draw(display, window, gc, strcmp(flaw, "pixels") == 0 && game.ticks >= at ? 0x800000ul | getpid() : 0);
        next_ns += PERIOD_NS;
        int64_t left_ns = next_ns - now_ns();
        if (left_ns > 0) {
            struct timespec left = {left_ns / 1000000000ll, left_ns % 1000000000ll};
            nanosleep(&left, NULL);
        }
    }
}
