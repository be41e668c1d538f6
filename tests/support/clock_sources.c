/* A program that is paced by one source of time, for the tests of the clock library (see clock_program.c for others).
 *
 * Usage: clock_sources REPORT SOURCE PERIOD_MS [N_BUSY]. The report is a file that the test reads while we run: the
 * number of periods that have passed, as the source counts them. Busy threads compute and sleep by turns.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ll
#define SECOND 1000000000ll

/* The first fields of `struct report` in clock_program.c. */
struct report {
    _Atomic int64_t n_waits, n_short, n_backwards, now_ns, n_wakes;
};

static struct report *report;
static int64_t period_ns;
static _Atomic int64_t n_expired;
static timer_t timer;
static int timer_fd, copy_fd, other_fd, epoll_fd;
static sigset_t alarm_set, no_signals;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * SECOND + now.tv_nsec;
}

static struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){ns / SECOND, ns % SECOND};
}

static struct timespec wall_after(int64_t ns)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return to_timespec(now.tv_sec * SECOND + now.tv_nsec + ns);
}

static void fail(const char *what)
{
    perror(what);
    exit(3);
}

static void check(int result, const char *what)
{
    if (result != 0)
        fail(what);
}

/* --- timers ------------------------------------------------------------------------------------------------------- */

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    atomic_fetch_add(&n_expired, 1 + (info->si_code == SI_TIMER ? info->si_overrun : 0));
}

static void on_thread(union sigval value)
{
    atomic_fetch_add(&report->n_waits, value.sival_int);
}

static struct itimerval periodic_us(void)
{
    struct timeval period = {period_ns / SECOND, period_ns % SECOND / 1000};
    return (struct itimerval){period, period};
}

static struct itimerspec periodic(void)
{
    return (struct itimerspec){to_timespec(period_ns), to_timespec(period_ns)};
}

static void start_itimer(void)
{
    struct itimerval value = periodic_us();
    check(setitimer(ITIMER_REAL, &value, NULL), "setitimer");
}

static void start_ualarm(void)
{
    ualarm((useconds_t)(period_ns / 1000), (useconds_t)(period_ns / 1000));
}

static void start_timer(int notify, int signal_number)
{
    struct sigevent event = {.sigev_notify = notify, .sigev_signo = signal_number};
    event.sigev_value.sival_int = 1;
    if (notify == SIGEV_THREAD)
        event.sigev_notify_function = on_thread;
    else if (notify == SIGEV_THREAD_ID)
        event._sigev_un._tid = (int)syscall(SYS_gettid);
    struct itimerspec value = periodic();
    check(timer_create(CLOCK_MONOTONIC, &event, &timer), "timer_create");
    check(timer_settime(timer, 0, &value, NULL), "timer_settime");
}

static void start_signal_timer(void)
{
    start_timer(SIGEV_SIGNAL, SIGALRM);
}

static void start_thread_id_timer(void)
{
    start_timer(SIGEV_THREAD_ID, SIGRTMIN + 3);
}

static void start_thread_timer(void)
{
    start_timer(SIGEV_THREAD, 0);
}

static void start_absolute_timer(void)
{
    struct itimerspec value = {to_timespec(period_ns), wall_after(period_ns)};
    check(timer_create(CLOCK_REALTIME, NULL, &timer), "timer_create");
    check(timer_settime(timer, TIMER_ABSTIME, &value, NULL), "timer_settime");
}

static void block_alarm(void)
{
    sigprocmask(SIG_BLOCK, &alarm_set, NULL);
}

static void start_blocked_timer(void)
{
    block_alarm();
    start_signal_timer();
}

static void start_signalfd(void)
{
    block_alarm();
    timer_fd = signalfd(-1, &alarm_set, 0);
    start_itimer();
}

static void start_timerfd_with(int flags)
{
    struct itimerspec value = periodic();
    timer_fd = timerfd_create(CLOCK_MONOTONIC, flags);
    check(timerfd_settime(timer_fd, 0, &value, NULL), "timerfd_settime");
    epoll_fd = epoll_create1(0);
    check(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, timer_fd, &(struct epoll_event){.events = EPOLLIN}), "epoll_ctl");
}

static void start_timerfd(void)
{
    start_timerfd_with(0);
}

static void start_timerfd_nonblock(void)
{
    start_timerfd_with(TFD_NONBLOCK);
}

/* The first descriptor is closed, and its number goes to another file. */
static void start_timerfd_copy(void)
{
    start_timerfd_with(TFD_CLOEXEC);
    copy_fd = dup(timer_fd);
    close(timer_fd);
    other_fd = open("/dev/null", O_RDWR);
    if (other_fd != timer_fd)
        fail("the number of a closed descriptor is not free");
    timer_fd = copy_fd;
    struct itimerspec value = periodic();
    check(timerfd_settime(timer_fd, 0, &value, NULL), "timerfd_settime of a copy");
}

static int64_t take_expirations(void)
{
    return atomic_exchange(&n_expired, 0);
}

static int64_t wait_pause(void)
{
    pause();
    return take_expirations();
}

static int64_t wait_sigsuspend(void)
{
    sigsuspend(&no_signals);
    return take_expirations();
}

static int64_t wait_sleep(void)
{
    struct timespec longer = to_timespec(10 * period_ns);
    nanosleep(&longer, NULL);
    return take_expirations();
}

/* The signal is blocked until the wait, so it cannot come before. */
static int64_t wait_itimer_again(void)
{
    struct itimerval value = periodic_us();
    value.it_interval = (struct timeval){0, 0};
    check(setitimer(ITIMER_REAL, &value, NULL), "setitimer");
    return wait_sigsuspend();
}

static int64_t wait_sigwaitinfo(void)
{
    siginfo_t info;
    return sigwaitinfo(&alarm_set, &info) == SIGALRM ? 1 + info.si_overrun : 0;
}

static int64_t wait_sigwait(void)
{
    int number;
    return sigwait(&alarm_set, &number) == 0 ? 1 + timer_getoverrun(timer) : 0;
}

static int64_t wait_signalfd(void)
{
    struct signalfd_siginfo info;
    return read(timer_fd, &info, sizeof info) == sizeof info;
}

static int64_t read_timerfd(void)
{
    uint64_t count;
    return read(timer_fd, &count, sizeof count) == sizeof count ? (int64_t)count : 0;
}

static int64_t wait_timerfd_poll(void)
{
    struct pollfd file = {.fd = timer_fd, .events = POLLIN};
    return poll(&file, 1, 10000) == 1 ? read_timerfd() : 0;
}

static int64_t wait_timerfd_poll_forever(void)
{
    struct pollfd file = {.fd = timer_fd, .events = POLLIN};
    return poll(&file, 1, -1) == 1 ? read_timerfd() : 0;
}

static int64_t wait_timerfd_epoll(void)
{
    struct epoll_event event;
    return epoll_wait(epoll_fd, &event, 1, 10000) == 1 ? read_timerfd() : 0;
}

static int64_t wait_timerfd_select(void)
{
    fd_set files;
    FD_ZERO(&files);
    FD_SET(timer_fd, &files);
    struct timeval longer = {10, 0};
    return select(timer_fd + 1, &files, NULL, NULL, &longer) == 1 ? read_timerfd() : 0;
}

/* --- waits with a time-out ---------------------------------------------------------------------------------------- */

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_t holder;
static mtx_t mutex;
static cnd_t cond;
static mqd_t queue;
static int semaphores;
static uint32_t word;
static _Atomic bool is_held;

static struct timespec monotonic_after(int64_t ns)
{
    return to_timespec(now_ns() + ns);
}

static void *hold_locks(void *nothing)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
    pthread_rwlock_wrlock(&rwlock);
    mtx_lock(&mutex);
    atomic_store(&is_held, true);
    for (;;)
        select(0, NULL, NULL, NULL, NULL);
    return nothing;
}

static void start_holder(void)
{
    mtx_init(&mutex, mtx_timed);
    check(pthread_create(&holder, NULL, hold_locks, NULL), "pthread_create");
    while (!atomic_load(&is_held))
        ;
}

static int64_t wait_read_lock(void)
{
    struct timespec deadline = wall_after(period_ns);
    return pthread_rwlock_timedrdlock(&rwlock, &deadline) == ETIMEDOUT;
}

static int64_t wait_write_lock(void)
{
    struct timespec deadline = wall_after(period_ns);
    return pthread_rwlock_timedwrlock(&rwlock, &deadline) == ETIMEDOUT;
}

static int64_t wait_read_clock_lock(void)
{
    struct timespec deadline = monotonic_after(period_ns);
    return pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &deadline) == ETIMEDOUT;
}

static int64_t wait_write_clock_lock(void)
{
    struct timespec deadline = monotonic_after(period_ns);
    return pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &deadline) == ETIMEDOUT;
}

static int64_t wait_join(void)
{
    struct timespec deadline = wall_after(period_ns);
    return pthread_timedjoin_np(holder, NULL, &deadline) == ETIMEDOUT;
}

static int64_t wait_clock_join(void)
{
    struct timespec deadline = monotonic_after(period_ns);
    return pthread_clockjoin_np(holder, NULL, CLOCK_MONOTONIC, &deadline) == ETIMEDOUT;
}

static int64_t wait_mtx(void)
{
    struct timespec deadline = wall_after(period_ns);
    return mtx_timedlock(&mutex, &deadline) == thrd_timedout;
}

static void start_cond(void)
{
    mtx_init(&mutex, mtx_timed);
    mtx_lock(&mutex);
    cnd_init(&cond);
}

static int64_t wait_cnd(void)
{
    struct timespec deadline = wall_after(period_ns);
    return cnd_timedwait(&cond, &mutex, &deadline) == thrd_timedout;
}

static int64_t wait_thrd_sleep(void)
{
    struct timespec period = to_timespec(period_ns);
    return thrd_sleep(&period, NULL) == 0;
}

static void start_queue(void)
{
    char name[64];
    struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
    snprintf(name, sizeof name, "/clock_sources.%d", getpid());
    queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
    if (queue == (mqd_t)-1)
        fail("mq_open");
    mq_unlink(name);
}

static void start_full_queue(void)
{
    start_queue();
    check(mq_send(queue, "full", 4, 0), "mq_send");
}

static int64_t wait_receive(void)
{
    char message[8];
    struct timespec deadline = wall_after(period_ns);
    return mq_timedreceive(queue, message, sizeof message, NULL, &deadline) < 0 && errno == ETIMEDOUT;
}

static int64_t wait_send(void)
{
    struct timespec deadline = wall_after(period_ns);
    return mq_timedsend(queue, "more", 4, 0, &deadline) < 0 && errno == ETIMEDOUT;
}

/* A child removes the set when the test has killed this process: no signal handler can. */
static void start_semaphores(void)
{
    semaphores = semget(IPC_PRIVATE, 1, 0600);
    if (semaphores < 0)
        fail("semget");
    int ends[2];
    char byte;
    check(pipe(ends), "pipe");
    if (fork() != 0) {
        close(ends[0]);
        return;
    }
    close(ends[1]);
    if (read(ends[0], &byte, 1) == 0) /* the other end is closed */
        semctl(semaphores, 0, IPC_RMID);
    _exit(0);
}

static int64_t wait_semaphore(void)
{
    struct sembuf take = {0, -1, 0};
    struct timespec period = to_timespec(period_ns);
    return semtimedop(semaphores, &take, 1, &period) < 0 && errno == EAGAIN;
}

static int64_t wait_sigtimedwait(void)
{
    struct timespec period = to_timespec(period_ns);
    return sigtimedwait(&alarm_set, NULL, &period) < 0 && errno == EAGAIN;
}

static int64_t wait_clock(void)
{
    clock_t until = clock() + (clock_t)(period_ns / (SECOND / CLOCKS_PER_SEC));
    while (clock() < until)
        ;
    return 1;
}

/* --- system calls by the function syscall ------------------------------------------------------------------------ */

static int64_t call_nanosleep(void)
{
    struct timespec period = to_timespec(period_ns);
    return syscall(SYS_nanosleep, &period, NULL) == 0;
}

static int64_t call_clock_nanosleep(void)
{
    struct timespec until = monotonic_after(period_ns);
    return syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == 0;
}

static int64_t call_futex(void)
{
    struct timespec period = to_timespec(period_ns);
    return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &period, NULL, 0) < 0 && errno == ETIMEDOUT;
}

static int64_t call_futex_bitset(void)
{
    struct timespec until = monotonic_after(period_ns);
    int operation = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG;
    return syscall(SYS_futex, &word, operation, 0, &until, NULL, FUTEX_BITSET_MATCH_ANY) < 0 && errno == ETIMEDOUT;
}

static int64_t call_futex_wall(void)
{
    struct timespec until = wall_after(period_ns);
    int operation = FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME;
    return syscall(SYS_futex, &word, operation, 0, &until, NULL, 1) < 0 && errno == ETIMEDOUT;
}

static int64_t call_futex_waitv(void)
{
    struct timespec until = monotonic_after(period_ns);
    struct futex_waitv waiter = {.uaddr = (uintptr_t)&word, .flags = FUTEX_32};
    return syscall(449, &waiter, 1, 0, &until, CLOCK_MONOTONIC) < 0 && errno == ETIMEDOUT;
}

static int64_t call_poll(void)
{
    struct pollfd nothing;
    return syscall(SYS_poll, &nothing, 0, period_ns / MS) == 0;
}

static int64_t call_ppoll(void)
{
    struct timespec period = to_timespec(period_ns);
    return syscall(SYS_ppoll, NULL, 0, &period, NULL, 8) == 0;
}

static int64_t call_select(void)
{
    struct timeval period = {period_ns / SECOND, period_ns % SECOND / 1000};
    return syscall(SYS_select, 0, NULL, NULL, NULL, &period) == 0;
}

static int64_t call_pselect(void)
{
    struct timespec period = to_timespec(period_ns);
    return syscall(SYS_pselect6, 0, NULL, NULL, NULL, &period, NULL) == 0;
}

static void start_epoll(void)
{
    epoll_fd = epoll_create1(0);
}

static int64_t call_epoll(void)
{
    struct epoll_event event;
    return syscall(SYS_epoll_wait, epoll_fd, &event, 1, period_ns / MS) == 0;
}

static int64_t call_epoll_pwait(void)
{
    struct epoll_event event;
    return syscall(SYS_epoll_pwait, epoll_fd, &event, 1, period_ns / MS, NULL, 8) == 0;
}

static int64_t call_clock_gettime(void)
{
    struct timespec now = {0, 0}, until = monotonic_after(period_ns);
    while (now.tv_sec * SECOND + now.tv_nsec < until.tv_sec * SECOND + until.tv_nsec)
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    return 1;
}

/* --- a loop -------------------------------------------------------------------------------------------------------- */

struct source {
    const char *name;
    void (*start)(void);
    int64_t (*wait)(void); /* returns how many periods have passed */
};

/* --- new threads and processes ------------------------------------------------------------------------------------ */

/* Work of a part of a millisecond, and then the tick. */
static void *work(void *nothing)
{
    for (volatile int i = 0; i < 200000; i++)
        ;
    atomic_fetch_add(&report->n_waits, 1);
    return nothing;
}

static int64_t make_thread(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    usleep((useconds_t)(period_ns / 1000));
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    check(pthread_create(&thread, &attributes, work, NULL), "pthread_create");
    return 0;
}

static void ignore_children(void)
{
    signal(SIGCHLD, SIG_IGN);
}

static int64_t make_process(void)
{
    usleep((useconds_t)(period_ns / 1000));
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        work(NULL);
        _exit(0);
    }
    return 0;
}

static const struct source sources[] = {
    {"setitimer", start_itimer, wait_pause},
    {"setitimer_sigsuspend", start_itimer, wait_sigsuspend},
    {"setitimer_sleep", start_itimer, wait_sleep},
    {"setitimer_once", block_alarm, wait_itimer_again},
    {"ualarm", start_ualarm, wait_pause},
    {"timer_signal", start_signal_timer, wait_pause},
    {"timer_thread_id", start_thread_id_timer, wait_pause},
    {"timer_thread", start_thread_timer, wait_pause},
    {"timer_absolute", start_absolute_timer, wait_pause},
    {"timer_sigwaitinfo", start_blocked_timer, wait_sigwaitinfo},
    {"timer_sigwait", start_blocked_timer, wait_sigwait},
    {"signalfd", start_signalfd, wait_signalfd},
    {"timerfd_read", start_timerfd, read_timerfd},
    {"timerfd_poll", start_timerfd_nonblock, wait_timerfd_poll},
    {"timerfd_poll_forever", start_timerfd, wait_timerfd_poll_forever},
    {"timerfd_epoll", start_timerfd_nonblock, wait_timerfd_epoll},
    {"timerfd_select", start_timerfd, wait_timerfd_select},
    {"timerfd_copy", start_timerfd_copy, read_timerfd},
    {"rwlock_timedrdlock", start_holder, wait_read_lock},
    {"rwlock_timedwrlock", start_holder, wait_write_lock},
    {"rwlock_clockrdlock", start_holder, wait_read_clock_lock},
    {"rwlock_clockwrlock", start_holder, wait_write_clock_lock},
    {"timedjoin", start_holder, wait_join},
    {"clockjoin", start_holder, wait_clock_join},
    {"mtx_timedlock", start_holder, wait_mtx},
    {"cnd_timedwait", start_cond, wait_cnd},
    {"thrd_sleep", NULL, wait_thrd_sleep},
    {"mq_timedreceive", start_queue, wait_receive},
    {"mq_timedsend", start_full_queue, wait_send},
    {"semtimedop", start_semaphores, wait_semaphore},
    {"sigtimedwait", block_alarm, wait_sigtimedwait},
    {"clock", NULL, wait_clock},
    {"syscall_nanosleep", NULL, call_nanosleep},
    {"syscall_clock_nanosleep", NULL, call_clock_nanosleep},
    {"syscall_futex", NULL, call_futex},
    {"syscall_futex_bitset", NULL, call_futex_bitset},
    {"syscall_futex_wall", NULL, call_futex_wall},
    {"syscall_futex_waitv", NULL, call_futex_waitv},
    {"syscall_poll", NULL, call_poll},
    {"syscall_ppoll", NULL, call_ppoll},
    {"syscall_select", NULL, call_select},
    {"syscall_pselect", NULL, call_pselect},
    {"syscall_epoll_wait", start_epoll, call_epoll},
    {"syscall_epoll_pwait", start_epoll, call_epoll_pwait},
    {"syscall_clock_gettime", NULL, call_clock_gettime},
    {"new_thread", NULL, make_thread},
    {"new_process", ignore_children, make_process},
};

static void *compute(void *nothing)
{
    for (volatile uint64_t i = 1;; i++)
        if (i % 100000 == 0)
            usleep(500);
    return nothing;
}

static void *sleep_long(void *nothing)
{
    for (;;)
        sleep(1000);
    return nothing;
}

/* N_SLEEPERS threads that wait for time, too. */
static void start_sleepers(void)
{
    const char *n_sleepers = getenv("N_SLEEPERS");
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * 1024);
    for (int i = 0; n_sleepers != NULL && i < atoi(n_sleepers); i++) {
        pthread_t thread;
        check(pthread_create(&thread, &attributes, sleep_long, NULL), "pthread_create");
    }
}

static void set_up(int n_busy)
{
    sigset_t all;
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGRTMIN + 3, &action, NULL);
    sigemptyset(&no_signals);
    sigemptyset(&alarm_set);
    sigaddset(&alarm_set, SIGALRM);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL); /* signals are for the main thread */
    for (int i = 0; i < n_busy; i++) {
        pthread_t thread;
        check(pthread_create(&thread, NULL, compute, NULL), "pthread_create");
    }
    start_sleepers();
    pthread_sigmask(SIG_SETMASK, &no_signals, NULL);
}

static void run(const struct source *source)
{
    if (source->start != NULL)
        source->start();
    for (;;) {
        int64_t n_periods = source->wait();
        if (n_periods == 0)
            atomic_fetch_add(&report->n_wakes, 1);
        atomic_store(&report->now_ns, now_ns());
        atomic_fetch_add(&report->n_waits, n_periods);
    }
}

int main(int n, char **arguments)
{
    int fd = n < 4 ? -1 : open(arguments[1], O_RDWR | O_CREAT, 0600);
    if (fd < 0 || ftruncate(fd, 4096) != 0)
        return 1;
    report = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    period_ns = atoll(arguments[3]) * MS;
    set_up(n > 4 ? atoi(arguments[4]) : 0);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (strcmp(sources[i].name, arguments[2]) == 0)
            run(&sources[i]);
    return 2;
}
