/* A program that reads a gamepad in the ways of games on Linux, for the tests of the gamepad.
 *
 * Usage: pad_program REPORT WAY. The report is a file that the test reads while the program runs. It has a window, and
 * makes 60 ticks a second; at each of them it writes the state of the pad as it knows it, in the format of XInput.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/input.h>
#include <linux/joystick.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Declarations of SDL 2; its headers are in another package. */
union event {
    uint32_t type;
    char bytes[128];
};
int SDL_Init(uint32_t flags);
void *SDL_CreateWindow(const char *title, int x, int y, int width_px, int height_px, uint32_t flags);
int SDL_PollEvent(union event *event);
int SDL_NumJoysticks(void);
int SDL_IsGameController(int index);
void *SDL_GameControllerOpen(int index);
const char *SDL_GameControllerName(void *pad);
uint8_t SDL_GameControllerGetButton(void *pad, int button);
int16_t SDL_GameControllerGetAxis(void *pad, int axis);

#define SDL_QUIT 0x100u /* also made of SIGTERM */
#define TICK_NS 16666667ll
#define N_BUTTONS 11

struct pad {
    uint16_t buttons;
    uint8_t triggers[2];
    int16_t axes[4];
};

struct report {
    _Atomic int64_t n_ticks;
    int64_t n_devices;
    int64_t n_presses; /* of buttons, as the program saw them */
    int64_t n_others;  /* other entries of the folder, devices that cannot be opened, questions without an answer */
    struct pad pad;    /* at the last tick */
    char name[64];
};

static struct report *report;
static struct pad now;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *way;
/* Bits of XInput in the order of the buttons of a joystick, and of those of SDL. */
static const uint16_t by_joystick[N_BUTTONS] = {0x1000, 0x2000, 0x4000, 0x8000, 0x100, 0x200, 0x20, 0x10, 0x400, 0x40, 0x80};
static const uint16_t by_sdl[15] = {0x1000, 0x2000, 0x4000, 0x8000, 0x20, 0x400, 0x10, 0x40, 0x80, 0x100, 0x200, 1, 2, 4, 8};

static bool is(const char *name)
{
    return strcmp(way, name) == 0;
}

static void set_button(uint16_t bit, bool is_down)
{
    if (is_down && !(now.buttons & bit))
        report->n_presses++;
    now.buttons = (uint16_t)(is_down ? now.buttons | bit : now.buttons & ~bit);
}

static void set_hat(int value, uint16_t negative, uint16_t positive)
{
    set_button(negative, value < 0);
    set_button(positive, value > 0);
}

static void take_input(const struct input_event *event)
{
    static const uint16_t codes[N_BUTTONS] = {BTN_A,      BTN_B,     BTN_X,    BTN_Y,      BTN_TL,    BTN_TR,
                                              BTN_SELECT, BTN_START, BTN_MODE, BTN_THUMBL, BTN_THUMBR};
    for (int i = 0; i < N_BUTTONS && event->type == EV_KEY; i++)
        if (codes[i] == event->code)
            set_button(by_joystick[i], event->value != 0);
    if (event->type != EV_ABS)
        return;
    switch (event->code) {
    case ABS_X:
    case ABS_RX:
        now.axes[event->code == ABS_X ? 0 : 2] = (int16_t)event->value;
        break;
    case ABS_Y:
    case ABS_RY:
        now.axes[event->code == ABS_Y ? 1 : 3] = (int16_t)-event->value;
        break;
    case ABS_Z:
    case ABS_RZ:
        now.triggers[event->code == ABS_RZ] = (uint8_t)event->value;
        break;
    case ABS_HAT0X:
        set_hat(event->value, 4, 8);
        break;
    case ABS_HAT0Y:
        set_hat(event->value, 1, 2);
    }
}

static void take_joystick(const struct js_event *event)
{
    bool is_button = (event->type & ~JS_EVENT_INIT) == JS_EVENT_BUTTON;
    if (is_button && event->number < N_BUTTONS)
        set_button(by_joystick[event->number], event->value != 0);
    if (is_button)
        return;
    switch (event->number) {
    case 0:
    case 3:
        now.axes[event->number == 0 ? 0 : 2] = event->value;
        break;
    case 1:
    case 4:
        now.axes[event->number == 1 ? 1 : 3] = (int16_t)-event->value;
        break;
    case 2:
    case 5:
        now.triggers[event->number == 5] = (uint8_t)((event->value + 32767) * 255 / 65534);
        break;
    case 6:
        set_hat(event->value, 4, 8);
        break;
    case 7:
        set_hat(event->value, 1, 2);
    }
}

/* Read what is there; false at the end of the device. */
static bool take_events(int fd)
{
    char bytes[8 * sizeof(struct input_event)];
    size_t size = is("joystick") ? sizeof(struct js_event) : sizeof(struct input_event);
    for (;;) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n <= 0)
            return n < 0;
        pthread_mutex_lock(&lock);
        for (ssize_t at = 0; at + (ssize_t)size <= n; at += (ssize_t)size) {
            if (is("joystick"))
                take_joystick((struct js_event *)(bytes + at));
            else
                take_input((struct input_event *)(bytes + at));
        }
        pthread_mutex_unlock(&lock);
        if (is("thread"))
            return true;
    }
}

static void *take_events_for_ever(void *fd)
{
    while (take_events((int)(intptr_t)fd))
        ;
    return NULL;
}

static void ask(bool is_answered)
{
    report->n_others += !is_answered;
}

/* What SDL and others ask before they take a device for a pad. */
static void examine(int fd)
{
    unsigned long keys[KEY_CNT / (8 * sizeof(long)) + 1] = {0}, states[KEY_CNT / (8 * sizeof(long)) + 1] = {0};
    struct input_id id = {0};
    struct input_absinfo axis = {0};
    uint8_t n_axes = 0, n_buttons = 0;
    int version = 0;
    if (is("joystick")) {
        ask(ioctl(fd, JSIOCGNAME(sizeof report->name), report->name) > 0);
        ask(ioctl(fd, JSIOCGAXES, &n_axes) == 0 && n_axes == 8);
        ask(ioctl(fd, JSIOCGBUTTONS, &n_buttons) == 0 && n_buttons == N_BUTTONS);
        ask(ioctl(fd, EVIOCGID, &id) < 0);
        return;
    }
    ask(ioctl(fd, EVIOCGNAME(sizeof report->name), report->name) > 0);
    ask(ioctl(fd, EVIOCGVERSION, &version) == 0 && version == EV_VERSION);
    ask(ioctl(fd, EVIOCGID, &id) == 0 && id.vendor == 0x45e && id.product == 0x28e);
    ask(ioctl(fd, EVIOCGBIT(EV_KEY, sizeof keys), keys) > 0 && keys[BTN_A / 64] >> BTN_A % 64 & 1);
    ask(ioctl(fd, EVIOCGKEY(sizeof states), states) >= 0 && states[BTN_A / 64] == 0);
    ask(ioctl(fd, EVIOCGABS(ABS_RY), &axis) == 0 && axis.minimum == -32768 && axis.maximum == 32767);
    ask(ioctl(fd, EVIOCGABS(ABS_WHEEL), &axis) < 0);
    ask(ioctl(fd, JSIOCGNAME(sizeof report->name), report->name) < 0);
}

static int open_device(void)
{
    char path[280];
    const char *wanted = is("joystick") ? "js" : "event";
    struct stat about;
    struct dirent *entry;
    int found = -1;
    DIR *folder = opendir("/dev/input");
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_type != DT_CHR || strncmp(entry->d_name, wanted, strlen(wanted)) != 0)
            continue;
        snprintf(path, sizeof path, "/dev/input/%s", entry->d_name);
        ask(stat(path, &about) == 0 && S_ISCHR(about.st_mode) && access(path, R_OK | W_OK) == 0);
        found = open(path, (is("thread") ? 0 : O_NONBLOCK) | O_RDWR);
        ask(found >= 0);
        report->n_devices++;
        examine(found);
    }
    if (folder != NULL)
        closedir(folder);
    ask(open("/dev/input/event7", O_RDONLY) < 0);
    return found;
}

static void read_sdl(void *pad)
{
    union event event;
    while (SDL_PollEvent(&event)) {
        if (event.type == SDL_QUIT)
            exit(0);
    }
    for (int i = 0; i < 15 && pad != NULL; i++)
        set_button(by_sdl[i], SDL_GameControllerGetButton(pad, i));
    for (int i = 0; i < 4 && pad != NULL; i++)
        now.axes[i] = SDL_GameControllerGetAxis(pad, i);
    for (int i = 1; i < 4 && pad != NULL; i += 2)
        now.axes[i] = (int16_t)-now.axes[i];
    for (int i = 0; i < 2 && pad != NULL; i++)
        now.triggers[i] = (uint8_t)(SDL_GameControllerGetAxis(pad, 4 + i) * 255 / 32767);
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ll + time.tv_nsec;
}

/* Wait for the next tick, and take events that come before it. */
static void wait_for_tick(int fd, int64_t due_ns)
{
    int epoll = -1;
    if (is("epoll")) {
        struct epoll_event wanted = {.events = EPOLLIN};
        epoll = epoll_create1(0);
        epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &wanted);
    }
    for (int64_t left_ns; (left_ns = due_ns - now_ns()) > 0;) {
        struct timespec left = {0, left_ns};
        struct pollfd file = {.fd = fd, .events = POLLIN};
        fd_set files;
        FD_ZERO(&files);
        int n_ready = 0;
        if (is("poll")) {
            n_ready = poll(&file, 1, (int)(left_ns / 1000000) + 1);
        } else if (is("select")) {
            FD_SET(fd, &files);
            n_ready = pselect(fd + 1, &files, NULL, NULL, &left, NULL);
        } else if (is("epoll")) {
            struct epoll_event found;
            n_ready = epoll_wait(epoll, &found, 1, (int)(left_ns / 1000000) + 1);
        } else {
            nanosleep(&left, NULL);
        }
        if (n_ready > 0)
            take_events(fd);
    }
    if (epoll >= 0)
        close(epoll);
}

int main(int n, char **arguments)
{
    if (n != 3)
        return 1;
    int file = open(arguments[1], O_RDWR | O_CREAT, 0600), fd = -1;
    if (file < 0 || ftruncate(file, 4096) != 0)
        return 2;
    report = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    way = arguments[2];
    void *pad = NULL;
    SDL_Init(is("sdl") ? 0x20 | 0x2000 : 0x20); /* SDL_INIT_VIDEO, SDL_INIT_GAMECONTROLLER */
    if (SDL_CreateWindow("pad", 0, 0, 64, 64, 4) == NULL)
        return 3;
    if (is("sdl")) {
        report->n_devices = SDL_NumJoysticks();
        ask(SDL_IsGameController(0));
        pad = SDL_GameControllerOpen(0);
        snprintf(report->name, sizeof report->name, "%s", pad != NULL ? SDL_GameControllerName(pad) : "");
    } else {
        fd = open_device();
    }
    pthread_t thread;
    if (is("thread"))
        pthread_create(&thread, NULL, take_events_for_ever, (void *)(intptr_t)fd);
    for (int64_t due_ns = now_ns() + TICK_NS;; due_ns += TICK_NS) {
        wait_for_tick(fd, due_ns);
        read_sdl(pad);
        if (is("read") || is("joystick"))
            take_events(fd);
        pthread_mutex_lock(&lock);
        report->pad = now;
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(&report->n_ticks, 1);
    }
}
