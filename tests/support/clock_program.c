/* A program that waits for time in one way and reports what it sees, for the tests of the clock library.
 *
 * Usage: clock_program REPORT WAY PERIOD_MS [N_WATCHERS]. It waits again and again, PERIOD_MS each time; watchers are
 * threads that look for time that goes back. The report is a file that the test reads while we run.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll
#define SECOND 1000000000ll

struct report {
    _Atomic int64_t n_waits;      /* completed waits */
    _Atomic int64_t n_short;      /* waits that ended too early */
    _Atomic int64_t n_backwards;  /* times that the clock went back */
    _Atomic int64_t now_ns;       /* CLOCK_MONOTONIC, as the main thread saw it last */
    _Atomic int64_t n_wakes;      /* that came for another reason: a file, a signal, a condition */
    _Atomic int64_t n_watched;    /* looks of the watchers */
    _Atomic int64_t highest_ns;   /* the latest time that any thread saw */
    _Atomic int64_t is_different; /* clocks that disagree */
    _Atomic int64_t is_ready;
};

static struct report *report;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, taken = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER, monotonic_cond;
static sem_t semaphore;
static int pipe_fds[2], epoll_fd;

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

/* The highest time of all threads must be read before the clock. */
static int64_t see(void)
{
    int64_t highest_ns = atomic_load(&report->highest_ns);
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    if (now_ns < highest_ns)
        atomic_fetch_add(&report->n_backwards, 1);
    while (highest_ns < now_ns && !atomic_compare_exchange_weak(&report->highest_ns, &highest_ns, now_ns))
        ;
    return now_ns;
}

/* All clocks go with one another. */
static void compare_clocks(int64_t since_ns[5])
{
    struct timeval day;
    struct timespec utc;
    clockid_t clocks[] = {CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_MONOTONIC_COARSE};
    int64_t before_ns = see() - since_ns[4];
    for (int i = 0; i < 3; i++) {
        int64_t passed_ns = clock_ns(clocks[i]) - since_ns[i];
        if (passed_ns < before_ns || passed_ns > see() - since_ns[3])
            atomic_store(&report->is_different, i + 1);
    }
    int64_t wall_ns = clock_ns(CLOCK_REALTIME);
    gettimeofday(&day, NULL);
    timespec_get(&utc, TIME_UTC);
    if (day.tv_sec * SECOND + day.tv_usec * 1000ll < wall_ns - 1000 || utc.tv_sec * SECOND + utc.tv_nsec < wall_ns ||
        time(NULL) < wall_ns / SECOND || time(NULL) > clock_ns(CLOCK_REALTIME) / SECOND)
        atomic_store(&report->is_different, 4);
}

static struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){ns / SECOND, ns % SECOND};
}

static void (*sdl_delay)(uint32_t);
static uint64_t (*sdl_ticks)(void);
static int (*sdl_wait_event)(void *, int);
static int (*sdl_cond_wait)(void *, void *, uint32_t);
static int (*sdl_sem_wait)(void *, uint32_t);
static void *sdl_cond, *sdl_mutex, *sdl_semaphore;

static void *from_sdl(void *sdl, const char *name)
{
    void *found = dlsym(sdl, name);
    if (found == NULL)
        exit(4);
    return found;
}

static void open_sdl(const char *way)
{
    void *sdl = dlopen("libSDL2-2.0.so.0", RTLD_NOW);
    if (sdl == NULL)
        exit(3);
    int (*init)(uint32_t) = (int (*)(uint32_t))from_sdl(sdl, "SDL_Init");
    sdl_delay = (void (*)(uint32_t))from_sdl(sdl, "SDL_Delay");
    sdl_ticks = (uint64_t(*)(void))from_sdl(sdl, "SDL_GetTicks64");
    sdl_wait_event = (int (*)(void *, int))from_sdl(sdl, "SDL_WaitEventTimeout");
    sdl_cond_wait = (int (*)(void *, void *, uint32_t))from_sdl(sdl, "SDL_CondWaitTimeout");
    sdl_sem_wait = (int (*)(void *, uint32_t))from_sdl(sdl, "SDL_SemWaitTimeout");
    init(strcmp(way, "sdl_event") == 0 ? 0x20 : 0); /* SDL_INIT_VIDEO */
    if (strcmp(way, "sdl_event") == 0) {
        void *(*window)(const char *, int, int, int, int, uint32_t) =
            (void *(*)(const char *, int, int, int, int, uint32_t))from_sdl(sdl, "SDL_CreateWindow");
        if (window("clock", 0, 0, 64, 64, 4) == NULL) /* SDL_WINDOW_SHOWN */
            exit(5);
        while (sdl_wait_event(NULL, 1) == 1) { /* that it is shown, that it has the focus */
            char event[128];
            sdl_wait_event(event, 0);
        }
    }
    sdl_cond = ((void *(*)(void))from_sdl(sdl, "SDL_CreateCond"))();
    sdl_mutex = ((void *(*)(void))from_sdl(sdl, "SDL_CreateMutex"))();
    sdl_semaphore = ((void *(*)(uint32_t))from_sdl(sdl, "SDL_CreateSemaphore"))(0);
    ((int (*)(void *))from_sdl(sdl, "SDL_LockMutex"))(sdl_mutex);
}

/* Wait once; 0 if the time is over, 1 if something else ended the wait. */
static int wait_once(const char *way, int64_t period_ns)
{
    struct timespec period = to_timespec(period_ns);
    struct timeval period_us = {period_ns / SECOND, period_ns % SECOND / 1000};
    struct timespec wall = to_timespec(clock_ns(CLOCK_REALTIME) + period_ns);
    struct timespec monotonic = to_timespec(clock_ns(CLOCK_MONOTONIC) + period_ns);
    struct pollfd file = {.fd = pipe_fds[0], .events = POLLIN};
    struct epoll_event event;
    uint32_t period_ms = (uint32_t)(period_ns / MS);
    fd_set files;
    FD_ZERO(&files);
    FD_SET(pipe_fds[0], &files);
#define IS(name) (strcmp(way, name) == 0)
    if (IS("nanosleep"))
        return nanosleep(&period, NULL) != 0;
    if (IS("usleep"))
        return usleep((useconds_t)(period_ns / 1000)) != 0;
    if (IS("sleep"))
        return sleep((unsigned)(period_ns / SECOND)) != 0;
    if (IS("clock_nanosleep"))
        return clock_nanosleep(CLOCK_REALTIME, 0, &period, NULL) != 0;
    if (IS("clock_nanosleep_until"))
        return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &monotonic, NULL) != 0;
    if (IS("poll"))
        return poll(&file, 1, (int)period_ms) != 0;
    if (IS("ppoll"))
        return ppoll(&file, 1, &period, NULL) != 0;
    if (IS("poll_nothing"))
        return poll(NULL, 0, (int)period_ms) != 0;
    if (IS("select"))
        return select(pipe_fds[0] + 1, &files, NULL, NULL, &period_us) != 0;
    if (IS("select_nothing"))
        return select(0, NULL, NULL, NULL, &period_us) != 0;
    if (IS("pselect"))
        return pselect(pipe_fds[0] + 1, &files, NULL, NULL, &period, NULL) != 0;
    if (IS("epoll_wait"))
        return epoll_wait(epoll_fd, &event, 1, (int)period_ms) != 0;
    if (IS("epoll_pwait"))
        return epoll_pwait(epoll_fd, &event, 1, (int)period_ms, NULL) != 0;
    if (IS("epoll_pwait2"))
        return epoll_pwait2(epoll_fd, &event, 1, &period, NULL) != 0;
    if (IS("cond_timedwait"))
        return pthread_cond_timedwait(&cond, &mutex, &wall) != ETIMEDOUT;
    if (IS("cond_timedwait_monotonic"))
        return pthread_cond_timedwait(&monotonic_cond, &mutex, &monotonic) != ETIMEDOUT;
    if (IS("cond_clockwait"))
        return pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &monotonic) != ETIMEDOUT;
    if (IS("sem_timedwait"))
        return sem_timedwait(&semaphore, &wall) == 0;
    if (IS("sem_clockwait"))
        return sem_clockwait(&semaphore, CLOCK_MONOTONIC, &monotonic) == 0;
    if (IS("mutex_timedlock"))
        return pthread_mutex_timedlock(&taken, &wall) != ETIMEDOUT;
    if (IS("mutex_clocklock"))
        return pthread_mutex_clocklock(&taken, CLOCK_MONOTONIC, &monotonic) != ETIMEDOUT;
    if (IS("sdl_delay"))
        return sdl_delay(period_ms), 0;
    if (IS("sdl_cond"))
        return sdl_cond_wait(sdl_cond, sdl_mutex, period_ms) != 1; /* SDL_MUTEX_TIMEDOUT */
    if (IS("sdl_semaphore"))
        return sdl_sem_wait(sdl_semaphore, period_ms) != 1;
    if (IS("sdl_event"))
        return sdl_wait_event(NULL, (int)period_ms) != 0;
    if (IS("spin")) {
        while (clock_ns(CLOCK_MONOTONIC) < monotonic.tv_sec * SECOND + monotonic.tv_nsec)
            ;
        return 0;
    }
    if (IS("spin_and_yield")) {
        do {
            sched_yield();
            atomic_fetch_add(&report->n_wakes, 1);
        } while (see() < monotonic.tv_sec * SECOND + monotonic.tv_nsec);
        return 0;
    }
    if (IS("spin_for_events")) { /* a loop of a game that never sleeps; the report counts its turns */
        do {
            poll(&file, 1, 0);
            atomic_fetch_add(&report->n_wakes, 1);
        } while (see() < monotonic.tv_sec * SECOND + monotonic.tv_nsec);
        return 0;
    }
    exit(2);
}

static void *watch(void *nothing)
{
    for (;;) {
        see();
        atomic_fetch_add(&report->n_watched, 1);
        if (atomic_load(&report->n_watched) % 64 == 0)
            usleep(300);
    }
    return nothing;
}

static void *feed(void *nothing)
{
    char byte;
    /* What the test writes is an event for a waiting thread. A thread that waits for a condition has the mutex when it
     * does not wait, so it misses no event. */
    while (read(0, &byte, 1) == 1) {
        pthread_mutex_lock(&mutex);
        if (byte == 's')
            kill(getpid(), SIGUSR1);
        else if (write(pipe_fds[1], &byte, 1) != 1)
            exit(6);
        pthread_cond_broadcast(&cond);
        pthread_cond_broadcast(&monotonic_cond);
        if (byte == 'p')
            sem_post(&semaphore);
        pthread_mutex_unlock(&mutex);
    }
    return nothing;
}

static void on_signal(int number)
{
    (void)number;
}

static void *hold(void *nothing)
{
    pthread_mutex_lock(&taken);
    atomic_store(&report->is_ready, 1);
    for (;;)
        pause();
    return nothing;
}

static void start(void *(*function)(void *))
{
    pthread_t thread;
    sigset_t signals;
    sigfillset(&signals);
    pthread_sigmask(SIG_BLOCK, &signals, NULL); /* signals are for the main thread */
    if (pthread_create(&thread, NULL, function, NULL) != 0)
        exit(7);
    pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
}

static void set_up(const char *way, int n_watchers)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&monotonic_cond, &attributes);
    sem_init(&semaphore, 0, 0);
    if (pipe(pipe_fds) != 0)
        exit(8);
    epoll_fd = epoll_create1(0);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pipe_fds[0], &(struct epoll_event){.events = EPOLLIN});
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    if (strncmp(way, "sdl_", 4) == 0)
        open_sdl(way);
    start(hold);
    while (!atomic_load(&report->is_ready))
        ;
    start(feed);
    for (int i = 0; i < n_watchers; i++)
        start(watch);
}

static void *wait_for_ever(void *arguments)
{
    const char *way = ((char **)arguments)[2];
    int64_t period_ns = atoll(((char **)arguments)[3]) * MS;
    int64_t first_ns = see(); /* before all others, and since_ns[4] after them */
    int64_t since_ns[5] = {clock_ns(CLOCK_MONOTONIC_RAW), clock_ns(CLOCK_BOOTTIME), clock_ns(CLOCK_MONOTONIC_COARSE)};
    since_ns[3] = first_ns;
    since_ns[4] = see();
    if (strncmp(way, "cond_", 5) == 0)
        pthread_mutex_lock(&mutex);
    for (;;) {
        int64_t before_ns = see();
        atomic_store(&report->now_ns, before_ns);
        if (wait_once(way, period_ns)) {
            char byte;
            struct pollfd file = {.fd = pipe_fds[0], .events = POLLIN};
            while (poll(&file, 1, 0) == 1)
                if (read(pipe_fds[0], &byte, 1) != 1)
                    exit(9);
            atomic_fetch_add(&report->n_wakes, 1);
        } else {
            int64_t waited_ns = see() - before_ns;
            if (waited_ns < period_ns)
                atomic_fetch_add(&report->n_short, 1);
            atomic_store(&report->now_ns, see());
            atomic_fetch_add(&report->n_waits, 1);
        }
        compare_clocks(since_ns);
    }
    return NULL;
}

int main(int n, char **arguments)
{
    if (n < 4)
        return 1;
    int fd = open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return 1;
    report = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (report == MAP_FAILED)
        return 1;
    if (getenv("FORK_FIRST")) { /* the clock has to work in a child that was forked after the first wait */
        usleep(1000);
        poll(NULL, 0, 1);
        pid_t child = fork();
        if (child != 0) {
            int status;
            waitpid(child, &status, 0);
            return 0;
        }
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test ends the parent */
    }
    set_up(arguments[2], n > 4 ? atoi(arguments[4]) : 0);
    if (getenv("IN_A_THREAD")) { /* the main thread only waits for it */
        pthread_t thread;
        pthread_create(&thread, NULL, wait_for_ever, arguments);
        pthread_join(thread, NULL);
    }
    wait_for_ever(arguments);
}
