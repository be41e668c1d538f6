/* The gamepad: devices /dev/input/event0 and /dev/input/js0, which exist in the game only.
 *
 * A program finds them by listing /dev/input, asks for their abilities, and reads events. While the page has a gamepad,
 * they are the only devices there, so that pads of the machine do not disturb. They look like those of the kernel's driver
 * for the Xbox 360 pad, which SDL and others know by its numbers.
 *
 * An open device is a pipe: poll, select, epoll and read work as they are. This process writes the events itself, when one
 * of its threads looks for events or at the time, or else by the helper. So the events of a step are there before the
 * first thread of the game runs in it. Sources: Documentation/input/{event-codes,joydev/joystick-api}.rst and
 * drivers/input/joystick/xpad.c of Linux (facts), linux/input.h, linux/joystick.h.
 */
#define _GNU_SOURCE
#include "pad.h"

#include <dirent.h>
#include <dlfcn.h>
#include <linux/input.h>
#include <linux/joystick.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define FOLDER "/dev/input"
#define NAME "Microsoft X-Box 360 pad"
#define N_BUTTONS 11
#define N_AXES 8
#define N_FILES 32
#define N_LISTINGS 8
/* Out of the way of programs that expect the first free numbers. */
#define LOWEST_FD 220
#define INPUT_MAJOR 13 /* Documentation/admin-guide/devices.txt */

enum kind { NO_DEVICE, FOLDER_ITSELF, EVENTS, JOYSTICK, HIDDEN };

/* A device that the game has opened. */
static struct file {
    _Atomic int fd; /* -1: free */
    int writing_fd;
    bool is_joystick;
    clockid_t clock; /* of the events */
    struct clock_pad_reader reader;
    struct clock_pad pad; /* that was reported last */
    int64_t reported_ns;  /* game time at that */
} files[N_FILES] = {[0 ... N_FILES - 1] = {.fd = -1}};
static _Atomic int n_files;
static _Atomic int32_t lock;       /* the thread that has it */
static _Atomic uint64_t reported = UINT64_MAX; /* what all files report */

/* The Guide button is in the middle of the codes. */
static const struct {
    uint16_t bit, code;
} buttons[N_BUTTONS] = {
    {0x1000, BTN_A},  {0x2000, BTN_B},      {0x4000, BTN_X},     {0x8000, BTN_Y},      {0x0100, BTN_TL},     {0x0200, BTN_TR},
    {0x0020, BTN_SELECT}, {0x0010, BTN_START}, {0x0400, BTN_MODE}, {0x0040, BTN_THUMBL}, {0x0080, BTN_THUMBR},
};
static const struct {
    uint16_t code;
    int16_t low, high, fuzz, flat;
} axes[N_AXES] = {
    {ABS_X, -32768, 32767, 16, 128},  {ABS_Y, -32768, 32767, 16, 128},  {ABS_Z, 0, 255, 0, 0},      {ABS_RX, -32768, 32767, 16, 128},
    {ABS_RY, -32768, 32767, 16, 128}, {ABS_RZ, 0, 255, 0, 0},           {ABS_HAT0X, -1, 1, 0, 0},   {ABS_HAT0Y, -1, 1, 0, 0},
};

/* Axes of evdev grow downwards. */
static int value_of(const struct clock_pad *pad, int axis)
{
    switch (axes[axis].code) {
    case ABS_X:
        return pad->axes[0];
    case ABS_Y:
        return -pad->axes[1];
    case ABS_Z:
        return pad->triggers[0];
    case ABS_RX:
        return pad->axes[2];
    case ABS_RY:
        return -pad->axes[3];
    case ABS_RZ:
        return pad->triggers[1];
    case ABS_HAT0X:
        return (pad->buttons >> 3 & 1) - (pad->buttons >> 2 & 1);
    default:
        return (pad->buttons >> 1 & 1) - (pad->buttons & 1);
    }
}

/* --- events ------------------------------------------------------------------------------------------------------- */

/* Another thread that has the lock writes a few events; a signal handler must not wait for its own thread. */
static bool take_lock(void)
{
    int32_t tid = (int32_t)clock_call(SYS_gettid), none = 0;
    while (!atomic_compare_exchange_strong(&lock, &none, tid)) {
        if (none == tid)
            return false;
        none = 0;
        clock_yield();
    }
    return true;
}

static void release_lock(void)
{
    atomic_store(&lock, 0);
}

/* The game has closed the other end. */
static void forget(struct file *file)
{
    real.close(file->writing_fd);
    atomic_store(&file->fd, -1);
    atomic_fetch_sub(&n_files, 1);
}

/* SIGPIPE, which would end the game, is kept from this thread: fclose and dup2 close the other end unseen. */
static bool write_all(struct file *file, const void *events, size_t n_bytes)
{
    static const uint64_t broken = UINT64_C(1) << (SIGPIPE - 1);
    static const struct timespec none = {0};
    uint64_t before = 0, pending = 0;
    if (n_bytes == 0)
        return true;
    clock_call(SYS_rt_sigprocmask, SIG_BLOCK, &broken, &before, sizeof before);
    clock_call(SYS_rt_sigpending, &pending, sizeof pending);
    long n_written = clock_call(SYS_write, file->writing_fd, events, n_bytes);
    if (n_written == -EPIPE && (pending & broken) == 0)
        clock_call(SYS_rt_sigtimedwait, &broken, NULL, &none, sizeof broken);
    clock_call(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    if (n_written == -EPIPE)
        forget(file);
    return n_written == (long)n_bytes || n_written == -EPIPE;
}

static bool report_events(struct file *file, const struct clock_pad *pad, const struct clock_moment *moment)
{
    struct input_event events[N_BUTTONS + N_AXES + 1];
    struct timespec now = to_timespec(page->base_ns[file->clock] + moment->virtual_ns);
    int n = 0;
    for (int i = 0; i < N_BUTTONS; i++)
        if ((file->pad.buttons ^ pad->buttons) & buttons[i].bit)
            events[n++] = (struct input_event){
                .type = EV_KEY, .code = buttons[i].code, .value = (pad->buttons & buttons[i].bit) != 0};
    for (int i = 0; i < N_AXES; i++)
        if (value_of(&file->pad, i) != value_of(pad, i))
            events[n++] = (struct input_event){.type = EV_ABS, .code = axes[i].code, .value = value_of(pad, i)};
    if (n > 0)
        events[n++] = (struct input_event){.type = EV_SYN, .code = SYN_REPORT};
    for (int i = 0; i < n; i++) {
        events[i].input_event_sec = now.tv_sec;
        events[i].input_event_usec = now.tv_nsec / 1000;
    }
    return write_all(file, events, (size_t)n * sizeof *events);
}

static int16_t joystick_value(const struct clock_pad *pad, int axis)
{
    int value = value_of(pad, axis), low = axes[axis].low, high = axes[axis].high;
    if (low < -1)
        return (int16_t)value;
    return (int16_t)((value - low) * 65534 / (high - low) - 32767);
}

/* At the opening, all of the state is reported as JS_EVENT_INIT. */
static bool report_joystick(struct file *file, const struct clock_pad *pad, const struct clock_moment *moment,
                            bool is_first)
{
    struct js_event events[N_BUTTONS + N_AXES];
    uint32_t now_ms = (uint32_t)((page->base_ns[CLOCK_MONOTONIC] + moment->virtual_ns) / CLOCK_MS);
    uint8_t init = is_first ? JS_EVENT_INIT : 0;
    int n = 0;
    for (uint8_t i = 0; i < N_BUTTONS; i++)
        if (is_first || (file->pad.buttons ^ pad->buttons) & buttons[i].bit)
            events[n++] = (struct js_event){now_ms, (pad->buttons & buttons[i].bit) != 0, JS_EVENT_BUTTON | init, i};
    for (uint8_t i = 0; i < N_AXES; i++)
        if (is_first || value_of(&file->pad, i) != value_of(pad, i))
            events[n++] = (struct js_event){now_ms, joystick_value(pad, i), JS_EVENT_AXIS | init, i};
    return write_all(file, events, (size_t)n * sizeof *events);
}

/* Report all states since the last call; without a controller the pad is at rest. False if something is left: a state must
 * be seen for longer, or the game has not read for so long that the pipe is full. */
static bool update_file(struct file *file)
{
    struct clock_moment moment;
    int n_unread = 0;
    clock_look(page, &moment);
    /* A state that was reported while time stood is seen in the next tick, and not before the game reads the events. */
    if (file->reader.pad.must_be_seen && clock_call(SYS_ioctl, file->writing_fd, FIONREAD, &n_unread) == 0 &&
        (n_unread > 0 || file->reader.since_ns == file->reported_ns))
        file->reader.since_ns = moment.virtual_ns;
    for (bool has_next = true; has_next;) {
        struct clock_pad_reader next = file->reader;
        has_next = clock_next_pad(page, &next, moment.virtual_ns);
        struct clock_pad pad = next.pad;
        if (atomic_load(&page->owner) == 0)
            pad = (struct clock_pad){0};
        if (!(file->is_joystick ? report_joystick(file, &pad, &moment, false) : report_events(file, &pad, &moment)))
            return false;
        if (atomic_load(&file->fd) < 0)
            return true;
        if (has_next)
            file->reported_ns = moment.virtual_ns;
        file->reader = next;
        file->pad = pad;
    }
    return file->reader.n_seen == atomic_load(&page->n_pads);
}

static uint64_t current(void)
{
    return (uint64_t)atomic_load(&page->n_pads) << 1 | (atomic_load(&page->owner) == 0);
}

bool update_pads(void)
{
    if (atomic_load_explicit(&n_files, memory_order_relaxed) == 0 || atomic_load(&reported) == current())
        return true;
    int saved_errno = errno;
    if (!take_lock())
        return false;
    uint64_t now = current();
    bool is_complete = true;
    for (int i = 0; i < N_FILES; i++)
        if (atomic_load(&files[i].fd) >= 0)
            is_complete = update_file(&files[i]) && is_complete;
    if (is_complete)
        atomic_store(&reported, now);
    release_lock();
    atomic_store(&page->n_pads_reported, (uint32_t)(now >> 1));
    clock_futex(&page->n_pads_reported, FUTEX_WAKE, INT_MAX, NULL);
    errno = saved_errno;
    return is_complete;
}

/* --- devices ------------------------------------------------------------------------------------------------------ */

static bool has_pad(void)
{
    return is_attached() && atomic_load(&page->has_pad) != 0;
}

static enum kind kind_of(const char *path)
{
    static const size_t n = sizeof FOLDER - 1;
    if (path == NULL || strncmp(path, FOLDER, n) != 0 || !has_pad())
        return NO_DEVICE;
    const char *rest = path + n;
    if (rest[0] == 0 || strcmp(rest, "/") == 0)
        return FOLDER_ITSELF;
    if (strcmp(rest, "/event0") == 0)
        return EVENTS;
    if (strcmp(rest, "/js0") == 0)
        return JOYSTICK;
    return strncmp(rest, "/event", 6) == 0 || strncmp(rest, "/js", 3) == 0 ? HIDDEN : NO_DEVICE;
}

static struct file *find_file(int fd)
{
    for (int i = 0; i < N_FILES && fd >= 0 && atomic_load_explicit(&n_files, memory_order_relaxed) > 0; i++)
        if (atomic_load(&files[i].fd) == fd)
            return &files[i];
    return NULL;
}

static int fail(int error)
{
    errno = error;
    return -1;
}

/* Let the file report from the present state on. */
static void begin_file(struct file *file, int fd, int writing_fd, bool is_joystick)
{
    struct clock_moment moment;
    clock_look(page, &moment);
    file->writing_fd = writing_fd;
    file->is_joystick = is_joystick;
    file->clock = CLOCK_REALTIME;
    file->reader = (struct clock_pad_reader){.n_seen = atomic_load(&page->n_pads) - 1};
    clock_next_pad(page, &file->reader, moment.virtual_ns);
    file->pad = atomic_load(&page->owner) == 0 ? (struct clock_pad){0} : file->reader.pad;
    if (is_joystick)
        report_joystick(file, &file->pad, &moment, true);
    atomic_store(&file->fd, fd);
    atomic_fetch_add(&n_files, 1);
    atomic_store(&page->has_pad_reader, 1);
}

int open_pad(const char *path, int flags)
{
    int ends[2];
    enum kind kind = kind_of(path);
    if (kind == NO_DEVICE || kind == FOLDER_ITSELF)
        return NOT_A_PAD;
    if (kind == HIDDEN)
        return fail(ENOENT);
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -1;
    int high = fcntl(ends[1], F_DUPFD_CLOEXEC, LOWEST_FD);
    if (high >= 0) {
        real.close(ends[1]);
        ends[1] = high;
    }
    if (!(flags & O_NONBLOCK))
        fcntl(ends[0], F_SETFL, 0);
    if (!(flags & O_CLOEXEC))
        fcntl(ends[0], F_SETFD, 0);
    bool is_open = false;
    if (take_lock()) {
        for (int i = 0; i < N_FILES && !is_open; i++) {
            if (atomic_load(&files[i].fd) >= 0)
                continue;
            begin_file(&files[i], ends[0], ends[1], kind == JOYSTICK);
            is_open = true;
        }
        release_lock();
    }
    if (!is_open) {
        real.close(ends[0]);
        real.close(ends[1]);
        return fail(EMFILE);
    }
    start_helper(); /* for a thread that waits without looking */
    return ends[0];
}

void close_pad(int fd)
{
    if (find_file(fd) == NULL || !take_lock())
        return;
    struct file *file = find_file(fd);
    if (file != NULL)
        forget(file);
    release_lock();
}

/* The pipes belong to the parent, which writes to them. */
void reset_pads(void)
{
    release_lock();
    for (int i = 0; i < N_FILES; i++)
        atomic_store(&files[i].fd, -1);
    atomic_store(&n_files, 0);
}

/* --- questions ---------------------------------------------------------------------------------------------------- */

/* Copy a result of which the program may take only a part; returns how much, as the kernel does. */
static int give(void *target, size_t size, const void *result, size_t n_bytes)
{
    size_t n = n_bytes < size ? n_bytes : size;
    memset(target, 0, size);
    memcpy(target, result, n);
    return (int)n;
}

static void set_bit(uint8_t *bits, int bit)
{
    bits[bit / 8] |= (uint8_t)(1 << bit % 8);
}

/* The codes of a type of events; only those that are pressed with a pad. */
static int give_bits(void *target, size_t size, int type, const struct clock_pad *pad)
{
    uint8_t bits[KEY_CNT / 8] = {0};
    if (type == 0)
        bits[0] = 1 << EV_SYN | 1 << EV_KEY | 1 << EV_ABS;
    for (int i = 0; i < N_BUTTONS && type == EV_KEY; i++)
        if (pad == NULL || pad->buttons & buttons[i].bit)
            set_bit(bits, buttons[i].code);
    for (int i = 0; i < N_AXES && type == EV_ABS; i++)
        set_bit(bits, axes[i].code);
    return give(target, size, bits, sizeof bits);
}

static int give_axis(void *target, size_t size, int code, const struct clock_pad *pad)
{
    for (int i = 0; i < N_AXES; i++) {
        struct input_absinfo about = {
            .value = value_of(pad, i), .minimum = axes[i].low, .maximum = axes[i].high, .fuzz = axes[i].fuzz, .flat = axes[i].flat};
        if (axes[i].code == code)
            return give(target, size, &about, sizeof about), 0;
    }
    return fail(EINVAL);
}

static int answer_events(struct file *file, unsigned number, size_t size, void *target)
{
    static const struct input_id id = {BUS_USB, 0x045e, 0x028e, 0x0114};
    static const int version = EV_VERSION;
    if (number >= _IOC_NR(EVIOCGABS(0)) && number < _IOC_NR(EVIOCGABS(0)) + ABS_CNT)
        return give_axis(target, size, (int)(number - _IOC_NR(EVIOCGABS(0))), &file->pad);
    if (number >= _IOC_NR(EVIOCGBIT(0, 0)) && number < _IOC_NR(EVIOCGBIT(0, 0)) + EV_CNT)
        return give_bits(target, size, (int)(number - _IOC_NR(EVIOCGBIT(0, 0))), NULL);
    switch (number) {
    case _IOC_NR(EVIOCGVERSION):
        return give(target, size, &version, sizeof version), 0;
    case _IOC_NR(EVIOCGID):
        return give(target, size, &id, sizeof id), 0;
    case _IOC_NR(EVIOCGNAME(0)):
        return give(target, size, NAME, sizeof NAME);
    case _IOC_NR(EVIOCGPHYS(0)):
    case _IOC_NR(EVIOCGUNIQ(0)):
        return fail(ENOENT);
    case _IOC_NR(EVIOCGKEY(0)):
        return give_bits(target, size, EV_KEY, &file->pad);
    case _IOC_NR(EVIOCGPROP(0)):
    case _IOC_NR(EVIOCGLED(0)):
    case _IOC_NR(EVIOCGSND(0)):
    case _IOC_NR(EVIOCGSW(0)):
        return give_bits(target, size, EV_MAX, NULL);
    case _IOC_NR(EVIOCGEFFECTS):
        memset(target, 0, size);
        return 0;
    case _IOC_NR(EVIOCGRAB):
        return 0;
    case _IOC_NR(EVIOCSCLOCKID):
        if (!is_virtual(*(const int *)target))
            return fail(EINVAL);
        file->clock = *(const int *)target;
        return 0;
    default:
        return fail(EINVAL);
    }
}

static int answer_joystick(unsigned number, size_t size, void *target)
{
    static const uint32_t version = JS_VERSION;
    uint8_t axis_codes[ABS_CNT] = {0};
    uint16_t button_codes[KEY_MAX - BTN_MISC + 1] = {0};
    for (int i = 0; i < N_AXES; i++)
        axis_codes[i] = (uint8_t)axes[i].code;
    for (int i = 0; i < N_BUTTONS; i++)
        button_codes[i] = buttons[i].code;
    switch (number) {
    case _IOC_NR(JSIOCGVERSION):
        return give(target, size, &version, sizeof version), 0;
    case _IOC_NR(JSIOCGAXES):
        return give(target, size, &(uint8_t){N_AXES}, 1), 0;
    case _IOC_NR(JSIOCGBUTTONS):
        return give(target, size, &(uint8_t){N_BUTTONS}, 1), 0;
    case _IOC_NR(JSIOCGNAME(0)):
        return give(target, size, NAME, sizeof NAME);
    case _IOC_NR(JSIOCGAXMAP):
        return give(target, size, axis_codes, sizeof axis_codes);
    case _IOC_NR(JSIOCGBTNMAP):
        return give(target, size, button_codes, sizeof button_codes);
    case _IOC_NR(JSIOCGCORR):
        memset(target, 0, size);
        return 0;
    case _IOC_NR(JSIOCSCORR):
        return 0;
    default:
        return fail(EINVAL);
    }
}

PUBLIC int ioctl(int fd, unsigned long request, ...)
{
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    struct file *file = find_file(fd);
    unsigned type = _IOC_TYPE(request);
    if (file == NULL || (type != 'E' && type != 'j'))
        return (int)clock_result(clock_call(SYS_ioctl, fd, request, argument));
    update_pads();
    if (file->is_joystick != (type == 'j'))
        return fail(EINVAL);
    return file->is_joystick ? answer_joystick(_IOC_NR(request), _IOC_SIZE(request), argument)
                             : answer_events(file, _IOC_NR(request), _IOC_SIZE(request), argument);
}

/* --- the folder --------------------------------------------------------------------------------------------------- */

/* The wrapped function. */
#define NEXT(name)                          \
    static __typeof__(name) *_Atomic next;  \
    if (next == NULL)                       \
    next = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

static void fill_stat(struct stat *about, enum kind kind)
{
    unsigned minor = kind == EVENTS ? 64 : 0;
    *about = (struct stat){.st_mode = kind == FOLDER_ITSELF ? S_IFDIR | 0755 : S_IFCHR | 0660, .st_nlink = 1,
                           .st_ino = kind, .st_blksize = 4096};
    if (kind != FOLDER_ITSELF)
        about->st_rdev = makedev(INPUT_MAJOR, minor);
}

/* All functions that look at a path; stat64 has the same structure. */
#define STAT(name, parameters, arguments)       \
    PUBLIC int name parameters;                 \
    PUBLIC int name parameters                  \
    {                                           \
        NEXT(name);                             \
        enum kind kind = kind_of(path);         \
        if (kind == NO_DEVICE)                  \
            return next arguments;              \
        if (kind == HIDDEN)                     \
            return fail(ENOENT);                \
        fill_stat((struct stat *)about, kind);  \
        return 0;                               \
    }

STAT(stat, (const char *restrict path, struct stat *restrict about), (path, about))
STAT(lstat, (const char *restrict path, struct stat *restrict about), (path, about))
STAT(stat64, (const char *restrict path, struct stat64 *restrict about), (path, about))
STAT(lstat64, (const char *restrict path, struct stat64 *restrict about), (path, about))
/* Before glibc 2.33. */
STAT(__xstat, (int version, const char *path, struct stat *about), (version, path, about))
STAT(__xstat64, (int version, const char *path, struct stat64 *about), (version, path, about))

PUBLIC int access(const char *path, int mode)
{
    NEXT(access);
    enum kind kind = kind_of(path);
    if (kind == NO_DEVICE)
        return next(path, mode);
    if (kind == HIDDEN)
        return fail(ENOENT);
    return mode & X_OK && kind != FOLDER_ITSELF ? fail(EACCES) : 0;
}

static const struct dirent entries[] = {
    {.d_ino = EVENTS, .d_off = 1, .d_reclen = sizeof(struct dirent), .d_type = DT_CHR, .d_name = "event0"},
    {.d_ino = JOYSTICK, .d_off = 2, .d_reclen = sizeof(struct dirent), .d_type = DT_CHR, .d_name = "js0"},
};
#define N_ENTRIES (int)(sizeof entries / sizeof *entries)

/* Listings of the folder that the game has open. */
static struct {
    DIR *_Atomic folder;
    int n_read;
    struct dirent entry;
} listings[N_LISTINGS];

PUBLIC DIR *opendir(const char *path)
{
    NEXT(opendir);
    if (kind_of(path) != FOLDER_ITSELF)
        return next(path);
    DIR *folder = next("/");
    for (int i = 0; i < N_LISTINGS && folder != NULL; i++) {
        DIR *none = NULL;
        if (!atomic_compare_exchange_strong(&listings[i].folder, &none, folder))
            continue;
        listings[i].n_read = 0;
        return folder;
    }
    if (folder != NULL)
        closedir(folder);
    errno = EMFILE;
    return NULL;
}

static int find_listing(DIR *folder)
{
    for (int i = 0; i < N_LISTINGS && folder != NULL; i++)
        if (atomic_load_explicit(&listings[i].folder, memory_order_relaxed) == folder)
            return i;
    return -1;
}

static struct dirent *read_listing(int i)
{
    if (listings[i].n_read == N_ENTRIES)
        return NULL;
    listings[i].entry = entries[listings[i].n_read++];
    return &listings[i].entry;
}

PUBLIC struct dirent *readdir(DIR *folder)
{
    NEXT(readdir);
    int i = find_listing(folder);
    return i < 0 ? next(folder) : read_listing(i);
}

PUBLIC struct dirent64 *readdir64(DIR *folder)
{
    NEXT(readdir64);
    int i = find_listing(folder);
    return i < 0 ? next(folder) : (struct dirent64 *)read_listing(i);
}

PUBLIC int closedir(DIR *folder)
{
    NEXT(closedir);
    int i = find_listing(folder);
    if (i >= 0)
        atomic_store(&listings[i].folder, NULL);
    return next(folder);
}

PUBLIC int scandir(const char *restrict path, struct dirent ***restrict found, int (*selects)(const struct dirent *),
                   int (*compare)(const struct dirent **, const struct dirent **))
{
    NEXT(scandir);
    if (kind_of(path) != FOLDER_ITSELF)
        return next(path, found, selects, compare);
    struct dirent **list = malloc(N_ENTRIES * sizeof *list);
    int n = 0;
    for (int i = 0; i < N_ENTRIES && list != NULL; i++) {
        if (selects != NULL && !selects(&entries[i]))
            continue;
        list[n] = malloc(sizeof **list);
        if (list[n] != NULL)
            *list[n++] = entries[i];
    }
    if (list == NULL)
        return fail(ENOMEM);
    if (compare != NULL)
        qsort(list, (size_t)n, sizeof *list, (int (*)(const void *, const void *))compare);
    *found = list;
    return n;
}

/* Nothing changes in the folder: a program that waits for changes gets none. */
PUBLIC int inotify_add_watch(int fd, const char *path, uint32_t mask)
{
    NEXT(inotify_add_watch);
    return kind_of(path) == FOLDER_ITSELF ? next(fd, "/", IN_DELETE_SELF) : next(fd, path, mask);
}
