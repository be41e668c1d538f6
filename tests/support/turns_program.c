/* Several threads whose waits end in one step, for the tests of their order.
 *
 * Usage: turns_program REPORT WAY PERIOD_MS ignored. WAY is how the threads wait. The periods of the threads differ, so
 * their deadlines come in changing orders. After each wait a thread has a turn: it computes for a while and compares the
 * deadline of its wait with that of the turn before. The report is that of clock_program.c: turns in n_waits, turns that
 * began during another turn in n_short, turns in the wrong order in n_backwards.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

#define N_THREADS 3
#define MS 1000000ll
#define SECOND 1000000000ll

struct report {
    _Atomic int64_t n_turns, n_overlaps, n_backwards;
};

static struct report *report;
static int64_t period_ns;
static bool (*wait_until)(int64_t deadline_ns); /* false: it was no wait that has a turn */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t has_lock;
static _Atomic int n_in_turn;
static _Atomic int64_t last_deadline_ns, last_now_ns;

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

static bool sleep_until(int64_t deadline_ns)
{
    struct timespec deadline = to_timespec(deadline_ns);
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL);
    return true;
}

static bool poll_until(int64_t deadline_ns)
{
    struct timespec left = to_timespec(deadline_ns - now_ns());
    ppoll(NULL, 0, &left, NULL);
    return true;
}

static bool select_until(int64_t deadline_ns)
{
    struct timespec left = to_timespec(deadline_ns - now_ns());
    fd_set files;
    int ends[2];
    if (pipe(ends) != 0)
        abort();
    FD_ZERO(&files);
    FD_SET(ends[0], &files);
    pselect(ends[0] + 1, &files, NULL, NULL, &left, NULL);
    close(ends[0]);
    close(ends[1]);
    return true;
}

static bool sleep_locked_until(int64_t deadline_ns)
{
    pthread_mutex_lock(&lock);
    sleep_until(deadline_ns);
    pthread_mutex_unlock(&lock);
    return false;
}

/* The wait of the first thread ends in the same step as the sleep of the second one, which has its lock. */
static bool wait_locked_until(int64_t deadline_ns)
{
    static _Atomic int n_threads;
    static __thread int thread = -1;
    if (thread < 0)
        thread = atomic_fetch_add(&n_threads, 1);
    if (thread > 1)
        return !sleep_until(deadline_ns);
    if (thread == 1) {
        sem_wait(&has_lock);
        return sleep_locked_until(now_ns() + period_ns / 2);
    }
    struct timespec deadline = to_timespec(deadline_ns);
    pthread_mutex_lock(&lock);
    sem_post(&has_lock);
    pthread_cond_clockwait(&never, &lock, CLOCK_MONOTONIC, &deadline);
    pthread_mutex_unlock(&lock);
    return false;
}

static void compute(int thread)
{
    static volatile double value = 1;
    for (int i = 0; i < 40000 * (N_THREADS - thread); i++)
        value = value * 1.0000001;
}

/* The time stands, so turns at one time belong to one step. */
static void take_turn(int thread, int64_t deadline_ns)
{
    int64_t seen_ns = now_ns();
    if (atomic_fetch_add(&n_in_turn, 1) != 0)
        report->n_overlaps++;
    compute(thread);
    if (seen_ns == last_now_ns && deadline_ns < last_deadline_ns)
        report->n_backwards++;
    last_now_ns = seen_ns;
    last_deadline_ns = deadline_ns;
    report->n_turns++;
    atomic_fetch_sub(&n_in_turn, 1);
}

static void *run(void *number)
{
    int thread = (int)(intptr_t)number;
    int64_t period = period_ns + thread * period_ns / 7;
    for (int64_t deadline_ns = now_ns() + period;; deadline_ns = now_ns() + period) {
        if (wait_until(deadline_ns))
            take_turn(thread, deadline_ns);
        else
            report->n_turns++;
    }
    return NULL;
}

/* A loop that never sleeps: its turn is the last. */
static void spin(void)
{
    int64_t next_ns = now_ns() + period_ns;
    for (;;) {
        while (now_ns() < next_ns)
            ;
        take_turn(0, INT64_MAX);
        next_ns = now_ns() + period_ns;
    }
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        bool (*wait_until)(int64_t deadline_ns);
    } ways[] = {{"sleep", sleep_until}, {"poll", poll_until}, {"select", select_until}, {"busy", sleep_until},
                {"locked", sleep_locked_until}, {"condition", wait_locked_until}};
    int file = count < 4 ? -1 : open(arguments[1], O_RDWR);
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (report == MAP_FAILED)
        return 2;
    period_ns = atoll(arguments[3]) * MS;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(arguments[2], ways[i].name) == 0)
            wait_until = ways[i].wait_until;
    if (wait_until == NULL)
        return 2;
    for (intptr_t i = 1; i < N_THREADS; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, run, (void *)i) != 0)
            return 2;
    }
    if (strcmp(arguments[2], "busy") == 0)
        spin();
    run(NULL);
}
