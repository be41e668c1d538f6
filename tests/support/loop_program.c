/* A program with a window whose loop never sleeps, for the tests of the tick boundary.
 *
 * Usage: loop_program REPORT LOOP TICK_MS. The report is a file that the test reads while the program runs. A tick is
 * due every TICK_MS; the program makes one tick at a time and does not make up for a tick that it missed. The loop counting
 * counts while it waits, and the loop computing computes for some time in every 25th tick.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Declarations of SDL 2 and Xlib that are used here; their headers are in separate packages. */
#define SDL_QUIT 0x100u /* also made of SIGTERM */
#define SDL_KEYDOWN 0x300u
union event {
    uint32_t type;
    char bytes[128];
};
int SDL_Init(uint32_t flags);
void *SDL_CreateWindow(const char *title, int x, int y, int width_px, int height_px, uint32_t flags);
void *SDL_GetWindowSurface(void *window);
int SDL_FillRect(void *surface, const void *area, uint32_t colour);
int SDL_UpdateWindowSurface(void *window);
int SDL_PollEvent(union event *event);
uint32_t SDL_GetTicks(void);
uint64_t SDL_GetPerformanceCounter(void);
uint64_t SDL_GetPerformanceFrequency(void);

#define COMPUTED_MS 60
#define MEASURED_TURNS 10000000
#define COMPUTED_TICKS 25

#define KEY_PRESS 2
union x_event {
    int type;
    long pad[24];
};
void *XOpenDisplay(const char *name);
unsigned long XCreateSimpleWindow(void *display, unsigned long parent, int x, int y, unsigned width_px,
                                  unsigned height_px, unsigned border_px, unsigned long border, unsigned long background);
unsigned long XDefaultRootWindow(void *display);
void *XDefaultGC(void *display, int screen);
int XStoreName(void *display, unsigned long window, const char *title);
int XSelectInput(void *display, unsigned long window, long mask);
int XMapWindow(void *display, unsigned long window);
int XSetForeground(void *display, void *context, unsigned long colour);
int XFillRectangle(void *display, unsigned long window, void *context, int x, int y, unsigned width_px,
                   unsigned height_px);
int XPending(void *display);
int XNextEvent(void *display, union x_event *event);
int XSync(void *display, int discards_events);
unsigned long XInternAtom(void *display, const char *name, int only_if_exists);
int XChangeProperty(void *display, unsigned long window, unsigned long property, unsigned long type, int format, int mode,
                    const unsigned char *data, int n);

struct report {
    _Atomic int64_t n_ticks;
    _Atomic int64_t n_keys;  /* pressed, as the program saw them */
    _Atomic int64_t n_turns; /* of the loop */
    _Atomic int64_t keys_at_tick; /* n_keys when the last tick was made */
};

static struct report *report;
static double tick_s, next_s;
static void *window, *display, *context;
static unsigned long x_window;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static double sdl_now_s(void)
{
    return (double)SDL_GetPerformanceCounter() / (double)SDL_GetPerformanceFrequency();
}

static void tick(void)
{
    atomic_store(&report->keys_at_tick, report->n_keys);
    atomic_fetch_add(&report->n_ticks, 1);
}

/* Make one tick if one is due. Ticks that were missed are dropped. */
static bool tick_if_due(double time_s)
{
    if (time_s < next_s)
        return false;
    while (next_s <= time_s)
        next_s += tick_s;
    tick();
    return true;
}

static void sdl_draw(void)
{
    SDL_FillRect(SDL_GetWindowSurface(window), NULL, (uint32_t)report->n_ticks * 12345);
    SDL_UpdateWindowSurface(window);
}

/* A key makes several events, and the program reads the time for each of them. */
static void sdl_take_events(bool draws)
{
    union event event;
    while (SDL_PollEvent(&event)) {
        if (event.type == SDL_QUIT)
            exit(0);
        if (event.type != SDL_KEYDOWN)
            continue;
        atomic_fetch_add(&report->n_keys, 1);
        SDL_GetTicks();
        if (draws)
            sdl_draw();
    }
}

static void sdl_loop(const char *loop)
{
    bool is_variable = strcmp(loop, "sdl_variable") == 0, draws = strcmp(loop, "sdl_drawing_events") == 0;
    double last_s = sdl_now_s();
    for (;; atomic_fetch_add(&report->n_turns, 1)) {
        sdl_take_events(draws);
        double time_s = sdl_now_s();
        if (is_variable) { /* each turn is a frame, and simulates what has passed */
            if (time_s > last_s)
                tick();
            last_s = time_s;
            sdl_draw();
        } else if (tick_if_due(time_s)) {
            sdl_draw();
        }
    }
}

static void x_draw(void)
{
    XSetForeground(display, context, (unsigned long)report->n_ticks * 12345);
    XFillRectangle(display, x_window, context, 0, 0, 64, 64);
}

static void x_take_events(void)
{
    union x_event event;
    while (XPending(display)) {
        XNextEvent(display, &event);
        now_s();
        if (event.type == KEY_PRESS)
            atomic_fetch_add(&report->n_keys, 1);
        x_draw();
    }
}

static void x_loop(const char *loop)
{
    bool asks_server = strcmp(loop, "x_round_trip") == 0;
    for (;; atomic_fetch_add(&report->n_turns, 1)) {
        x_take_events();
        if (asks_server)
            while (now_s() < next_s)
                XSync(display, 0);
        if (tick_if_due(now_s()))
            x_draw();
    }
}

static _Atomic bool is_due;
static volatile uint64_t result;

/* A loop of a few instructions without a call, for COMPUTED_MS of processor time, or what the environment says. */
static void compute(void)
{
    static uint64_t n_turns;
    struct timespec start, now;
    uint64_t value = 1;
    if (n_turns == 0) { /* measure how many turns that takes */
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
        for (n_turns = 0; n_turns < MEASURED_TURNS; n_turns++)
            value = value * 6364136223846793005u + n_turns;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        const char *duration_ms = getenv("COMPUTED_MS");
        double duration_ns = (duration_ms ? atof(duration_ms) : COMPUTED_MS) * 1e6;
        n_turns = (uint64_t)(n_turns * duration_ns / ((now.tv_sec - start.tv_sec) * 1e9 + now.tv_nsec - start.tv_nsec));
    }
    for (uint64_t i = 0; i < n_turns; i++)
        value = value * 6364136223846793005u + i;
    result = value;
}

static void *set_variable(void *nothing)
{
    struct timespec period = {0, (long)(tick_s * 1e9)};
    for (;;) {
        nanosleep(&period, NULL);
        is_due = true;
    }
    return nothing;
}

static void variable_loop(const char *loop)
{
    bool is_counting = strcmp(loop, "counting") == 0, is_computing = strcmp(loop, "computing") == 0;
    pthread_t timer;
    pthread_create(&timer, NULL, set_variable, NULL);
    for (;; atomic_fetch_add(&report->n_turns, 1)) {
        if (is_counting) {
            uint64_t n_looks = 0;
            while (!is_due)
                n_looks++;
            result = n_looks;
        }
        while (!is_due)
            ;
        is_due = false;
        x_take_events();
        if (is_computing && report->n_ticks % COMPUTED_TICKS == 0)
            compute();
        tick();
        x_draw();
        XSync(display, 0);
    }
}

static void open_sdl_window(void)
{
    SDL_Init(0x20); /* SDL_INIT_VIDEO */
    window = SDL_CreateWindow("loop", 0, 0, 64, 64, 4); /* SDL_WINDOW_SHOWN */
    if (window == NULL)
        exit(3);
}

static void open_x_window(void)
{
    display = XOpenDisplay(NULL);
    if (display == NULL)
        exit(4);
    x_window = XCreateSimpleWindow(display, XDefaultRootWindow(display), 0, 0, 64, 64, 0, 0, 0);
    context = XDefaultGC(display, 0);
    long pid = getpid();
    XChangeProperty(display, x_window, XInternAtom(display, "_NET_WM_PID", 0), 6, 32, 0, (unsigned char *)&pid, 1);
    XStoreName(display, x_window, "loop");
    XSelectInput(display, x_window, 3); /* KeyPressMask | KeyReleaseMask */
    XMapWindow(display, x_window);
    XSync(display, 0);
}

int main(int n, char **arguments)
{
    if (n != 4)
        return 1;
    int fd = open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return 2;
    report = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const char *loop = arguments[2];
    tick_s = atof(arguments[3]) / 1000;
    if (strncmp(loop, "sdl_", 4) == 0) {
        open_sdl_window();
        next_s = sdl_now_s();
        sdl_loop(loop);
    }
    open_x_window();
    next_s = now_s();
    if (strncmp(loop, "x_", 2) == 0)
        x_loop(loop);
    variable_loop(loop);
}
