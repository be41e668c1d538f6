/* A program that waits for time without libc, for the tests of the clock library's probe.
 *
 * Usage: clock_bypass REPORT SOURCE PERIOD_MS [UNUSED]. The report is that of clock_sources.c. The system calls are made
 * by an instruction of the program itself, as in Go or in hand-written assembly.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct report {
    _Atomic int64_t n_waits;
};

static long call(long number, long first, long second, long third, long fourth)
{
    register long r10 __asm__("r10") = fourth;
    register long r8 __asm__("r8") = 0;
    register long r9 __asm__("r9") = 0;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

static void on_signal(int number)
{
    (void)number;
}

static long start(const char *source, long period_ms)
{
    struct itimerspec period = {{0, period_ms * 1000000}, {0, period_ms * 1000000}};
    struct itimerval period_us = {{0, period_ms * 1000}, {0, period_ms * 1000}};
    long id = 0;
    signal(SIGALRM, on_signal);
    if (strcmp(source, "timerfd") == 0) {
        id = call(SYS_timerfd_create, CLOCK_MONOTONIC, 0, 0, 0);
        call(SYS_timerfd_settime, id, 0, (long)&period, 0);
    } else if (strcmp(source, "timer_create") == 0) {
        int timer = 0;
        call(SYS_timer_create, CLOCK_MONOTONIC, 0, (long)&timer, 0);
        call(SYS_timer_settime, timer, 0, (long)&period, 0);
    } else if (strcmp(source, "setitimer") == 0) {
        call(SYS_setitimer, ITIMER_REAL, (long)&period_us, 0, 0);
    } else if (strcmp(source, "epoll_wait") == 0) {
        id = call(SYS_epoll_create1, 0, 0, 0, 0);
    }
    return id;
}

static void wait_once(const char *source, long period_ms, long id)
{
    struct timespec period = {0, period_ms * 1000000};
    struct pollfd nothing;
    struct epoll_event event;
    uint64_t count;
    uint32_t word = 0;
    if (strcmp(source, "nanosleep") == 0)
        call(SYS_nanosleep, (long)&period, 0, 0, 0);
    else if (strcmp(source, "clock_nanosleep") == 0)
        call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&period, 0);
    else if (strcmp(source, "futex") == 0)
        call(SYS_futex, (long)&word, FUTEX_WAIT, 0, (long)&period);
    else if (strcmp(source, "poll") == 0)
        call(SYS_poll, (long)&nothing, 0, period_ms, 0);
    else if (strcmp(source, "ppoll") == 0)
        call(SYS_ppoll, (long)&nothing, 0, (long)&period, 0);
    else if (strcmp(source, "epoll_wait") == 0)
        call(SYS_epoll_wait, id, (long)&event, 1, period_ms);
    else if (strcmp(source, "timerfd") == 0)
        call(SYS_read, id, (long)&count, sizeof count, 0);
    else if (strcmp(source, "rdtsc") == 0)
        for (uint64_t until = __builtin_ia32_rdtsc() + 1000000; __builtin_ia32_rdtsc() < until;)
            ;
    else if (strcmp(source, "setitimer") == 0 || strcmp(source, "timer_create") == 0)
        call(SYS_pause, 0, 0, 0, 0);
    else /* held, for comparison */
        usleep((useconds_t)period_ms * 1000);
}

int main(int n, char **arguments)
{
    int fd = n < 4 ? -1 : open(arguments[1], O_RDWR);
    if (fd < 0)
        return 1;
    struct report *report = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    long period_ms = atol(arguments[3]), id = start(arguments[2], period_ms);
    for (;;) {
        wait_once(arguments[2], period_ms, id);
        atomic_fetch_add(&report->n_waits, 1);
    }
}
