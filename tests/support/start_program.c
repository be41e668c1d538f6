/* Reports what differs from one start of a program to the next: clocks, random numbers, addresses, variables.
 *
 * start_program REPORT [N_SLEEPS]: it sleeps so often for 10 ms, writes its report, and ends when its input does.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static void print_bytes(FILE *report, const char *name, const unsigned char *bytes, size_t n)
{
    fprintf(report, "%s=", name);
    for (size_t i = 0; i < n; i++)
        fprintf(report, "%02x", bytes[i]);
    fprintf(report, "\n");
}

static void report_clock(FILE *report, const char *name, clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    fprintf(report, "%s=%lld\n", name, (long long)now.tv_sec * 1000000000 + now.tv_nsec);
}

static void report_random(FILE *report)
{
    unsigned char bytes[20];
    if (getrandom(bytes, sizeof bytes, 0) == sizeof bytes)
        print_bytes(report, "getrandom", bytes, sizeof bytes);
    if (syscall(SYS_getrandom, bytes, sizeof bytes, 0) == sizeof bytes)
        print_bytes(report, "raw_getrandom", bytes, sizeof bytes);
    int raw = (int)syscall(SYS_openat, AT_FDCWD, "/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (raw >= 0 && read(raw, bytes, sizeof bytes) == sizeof bytes)
        print_bytes(report, "raw_urandom", bytes, sizeof bytes);
    close(raw);
    if (getentropy(bytes, sizeof bytes) == 0)
        print_bytes(report, "getentropy", bytes, sizeof bytes);
    /* Declared since glibc 2.36. */
    uint32_t (*arc4random_here)(void) = (uint32_t (*)(void))dlsym(RTLD_DEFAULT, "arc4random");
    uint32_t (*uniform_here)(uint32_t) = (uint32_t (*)(uint32_t))dlsym(RTLD_DEFAULT, "arc4random_uniform");
    if (arc4random_here != NULL && uniform_here != NULL)
        fprintf(report, "arc4random=%u %u\n", arc4random_here(), uniform_here(1000));
    int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && read(fd, bytes, sizeof bytes) == sizeof bytes)
        print_bytes(report, "urandom", bytes, sizeof bytes);
    close(fd);
    FILE *file = fopen("/dev/random", "rb");
    if (file != NULL && fread(bytes, 1, sizeof bytes, file) == sizeof bytes)
        print_bytes(report, "random", bytes, sizeof bytes);
    if (file != NULL)
        fclose(file);
}

/* Four threads read at the same time: which gets which bytes is chance, the sum of all is not. */
static void *sum_words(void *sum)
{
    for (int i = 0; i < 1000; i++) {
        uint64_t word = 0;
        if (getrandom(&word, sizeof word, 0) != sizeof word)
            abort();
        *(uint64_t *)sum += word;
    }
    return NULL;
}

static void report_threads(FILE *report)
{
    pthread_t threads[4];
    uint64_t sums[4] = {0}, total = 0;
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, sum_words, &sums[i]);
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        total += sums[i];
    }
    fprintf(report, "threads=%llu\n", (unsigned long long)total);
}

int main(int argc, char **argv)
{
    char path[4096];
    struct timespec pause = {0, 10000000};
    int n_sleeps = argc > 2 ? atoi(argv[2]) : 0;
    void *heap = malloc(100);
    time_t now = time(NULL);
    struct timespec first;
    clock_gettime(CLOCK_MONOTONIC, &first);
    for (int i = 0; i < n_sleeps; i++)
        nanosleep(&pause, NULL);
    snprintf(path, sizeof path, "%s.part", argv[1]);
    FILE *report = fopen(path, "w");
    if (report == NULL)
        return 1;
    fprintf(report, "time=%lld\nfirst=%lld\n", (long long)now, (long long)first.tv_sec * 1000000000 + first.tv_nsec);
    report_clock(report, "realtime", CLOCK_REALTIME);
    report_clock(report, "monotonic", CLOCK_MONOTONIC);
    report_clock(report, "boottime", CLOCK_BOOTTIME);
    report_random(report);
    report_threads(report);
    fprintf(report, "addresses=%p %p %p %p\n", (void *)&first, heap, (void *)main, dlsym(RTLD_DEFAULT, "malloc"));
    fprintf(report, "midnight=%d\n", localtime(&now)->tm_hour);
    for (char **variable = environ; *variable != NULL; variable++)
        fprintf(report, "variable %s\n", *variable);
    fclose(report);
    rename(path, argv[1]);
    for (char byte; read(STDIN_FILENO, &byte, 1) > 0;)
        ;
    for (;;)
        nanosleep(&pause, NULL);
}
