/* The event queues of toolkits and the connection to the X server, as marks for boundary.c.
 *
 * A toolkit reads many events at once and hands them out one by one, so whether its queue is empty is known only to its
 * own event functions. Those of SDL 1.2, 2 and 3, of Xlib, of XCB and of Allegro 5 stand here. Other toolkits hand out
 * all of their events in one call, or call these functions.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/un.h>

/* The wrapped function. A library that was loaded only for a plugin does not follow ours in the global search order;
 * it is a dependency of the plugin. */
static void *find_next(const char *name, const void *caller)
{
    Dl_info plugin;
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL && dladdr(caller, &plugin) != 0 && plugin.dli_fname != NULL) {
        void *handle = dlopen(plugin.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
        if (handle != NULL) {
            found = dlsym(handle, name);
            dlclose(handle);
        }
    }
    if (found == NULL) {
        dprintf(STDERR_FILENO, "soulslab: the clock library cannot find %s in the libraries of the game\n", name);
        abort();
    }
    return found;
}

#define NEXT(name)                                                          \
    static __typeof__(name) *_Atomic next;                                  \
    if (next == NULL)                                                       \
    next = (__typeof__(name) *)find_next(#name, __builtin_return_address(0))

/* An event function that returns at once. */
#define LOOK(type, name, parameters, arguments, has_event)          \
    PUBLIC type name parameters;                                    \
    PUBLIC type name parameters                                     \
    {                                                               \
        NEXT(name);                                                 \
        if (!is_attached())                                         \
            return next arguments;                                  \
        before_look(THIS_CALL());                                   \
        type result = next arguments;                               \
        if (has_event)                                              \
            after_event();                                          \
        else                                                        \
            after_idle_look(LOOK_EXACT);                            \
        return result;                                              \
    }

/* An event function that waits for an event. */
#define TAKE(type, name, parameters, arguments) \
    PUBLIC type name parameters;                \
    PUBLIC type name parameters                 \
    {                                           \
        NEXT(name);                             \
        type result = next arguments;           \
        if (is_attached())                      \
            after_event();                      \
        return result;                          \
    }

/* SDL 3 returns a bool, of which only the lowest byte is defined. */
#define IS_TRUE ((result & 0xff) != 0)

LOOK(int, SDL_PollEvent, (void *event), (event), IS_TRUE)
/* Of its actions only SDL_GETEVENT, 2, takes events. */
LOOK(int, SDL_PeepEvents, (void *events, int n, int action, uint32_t first, uint32_t last),
     (events, n, action, first, last), result != 0)
TAKE(int, SDL_WaitEvent, (void *event), (event))
TAKE(int, SDL_WaitEventTimeout, (void *event, int timeout_ms), (event, timeout_ms))

LOOK(bool, al_get_next_event, (void *queue, void *event), (queue, event), result)

/* XPending and XEventsQueued take nothing: the program does, with XNextEvent. */
LOOK(int, XPending, (void *display), (display), result != 0)
LOOK(int, XEventsQueued, (void *display, int mode), (display, mode), result != 0)
LOOK(int, XCheckMaskEvent, (void *display, long mask, void *event), (display, mask, event), result != 0)
LOOK(int, XCheckTypedEvent, (void *display, int type, void *event), (display, type, event), result != 0)
LOOK(int, XCheckWindowEvent, (void *display, unsigned long window, long mask, void *event),
     (display, window, mask, event), result != 0)
LOOK(int, XCheckTypedWindowEvent, (void *display, unsigned long window, int type, void *event),
     (display, window, type, event), result != 0)
LOOK(int, XCheckIfEvent, (void *display, void *event, void *is_wanted, char *argument),
     (display, event, is_wanted, argument), result != 0)
TAKE(int, XNextEvent, (void *display, void *event), (display, event))
TAKE(int, XMaskEvent, (void *display, long mask, void *event), (display, mask, event))
TAKE(int, XWindowEvent, (void *display, unsigned long window, long mask, void *event), (display, window, mask, event))
TAKE(int, XIfEvent, (void *display, void *event, void *is_wanted, char *argument),
     (display, event, is_wanted, argument))

LOOK(void *, xcb_poll_for_event, (void *connection), (connection), result != NULL)
LOOK(void *, xcb_poll_for_queued_event, (void *connection), (connection), result != NULL)
TAKE(void *, xcb_wait_for_event, (void *connection), (connection))

/* --- the connection to the X server ------------------------------------------------------------------------------- */

#define MAX_FD 1024
static _Atomic bool is_x_connection[MAX_FD];

static bool leads_to_x(int fd)
{
    return fd >= 0 && fd < MAX_FD && atomic_load_explicit(&is_x_connection[fd], memory_order_relaxed);
}

/* The socket of a display has this name in the file system, and after a zero byte in the abstract name space. */
static bool is_x_address(const struct sockaddr *address, socklen_t size)
{
    static const char prefix[] = "/tmp/.X11-unix/X";
    const struct sockaddr_un *local = (const struct sockaddr_un *)address;
    if (address->sa_family != AF_UNIX || size < offsetof(struct sockaddr_un, sun_path) + sizeof prefix)
        return false;
    return strncmp(local->sun_path + (local->sun_path[0] == 0), prefix, sizeof prefix - 1) == 0;
}

/* A program may draw the next frame into memory that it shares with the X server before the server has read the last one;
 * Allegro 4 does not wait. Then chance would decide which frame the server sees. */
static _Atomic bool is_picture_shared;

int XShmAttach(void *display, void *segment);
PUBLIC int XShmAttach(void *display, void *segment)
{
    NEXT(XShmAttach);
    atomic_store(&is_picture_shared, true);
    return next(display, segment);
}

/* Wait until a process that has just been woken sleeps again: then it has handled what woke it. */
static void await_sleep(int32_t pid)
{
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int64_t started_ns = clock_real_ns();
    int fd = (int)clock_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    while (clock_real_ns() - started_ns < CHECK_NS) {
        long n_bytes = clock_call(SYS_pread64, fd, text, sizeof text - 1, 0l);
        text[n_bytes > 0 ? n_bytes : 0] = 0;
        const char *name_end = strrchr(text, ')');
        if (name_end == NULL || strncmp(name_end, ") S", 3) == 0)
            break;
        clock_call(SYS_sched_yield);
    }
    clock_call(SYS_close, fd);
}

/* The program has sent requests to the X server. */
static void after_sending(void)
{
    after_drawing();
    for (int i = 0; i < CLOCK_N_SERVERS && atomic_load_explicit(&is_picture_shared, memory_order_relaxed); i++) {
        int32_t server = atomic_load(&page->servers[i]);
        if (server != 0)
            await_sleep(server);
    }
}

PUBLIC int connect(int fd, const struct sockaddr *address, socklen_t size)
{
    if (!is_attached())
        return (int)clock_result(clock_call(SYS_connect, fd, address, size));
    int result = real.connect(fd, address, size);
    if (fd >= 0 && fd < MAX_FD)
        atomic_store(&is_x_connection[fd], result == 0 && is_x_address(address, size));
    return result;
}

PUBLIC ssize_t recvmsg(int fd, struct msghdr *message, int flags)
{
    if (!is_attached())
        return clock_result(clock_call(SYS_recvmsg, fd, message, flags));
    if (!leads_to_x(fd))
        return real.recvmsg(fd, message, flags);
    before_look(THIS_CALL());
    ssize_t result = real.recvmsg(fd, message, flags);
    if (result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        after_idle_look(LOOK_RAW);
    return result;
}

PUBLIC ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    if (!is_attached())
        return clock_result(clock_call(SYS_sendmsg, fd, message, flags));
    ssize_t result = real.sendmsg(fd, message, flags);
    if (result > 0 && leads_to_x(fd))
        after_sending();
    return result;
}

PUBLIC ssize_t writev(int fd, const struct iovec *parts, int n)
{
    if (!is_attached())
        return clock_result(clock_call(SYS_writev, fd, parts, n));
    ssize_t result = real.writev(fd, parts, n);
    if (result > 0 && leads_to_x(fd))
        after_sending();
    return result;
}
