/* Random sources. In a game that is started with a seed they give numbers that depend on the seed, and on how much this
 * process has read from them; in all others what the kernel gives. */
#define _GNU_SOURCE
#include "pad.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

/* A file of random bytes holds so many; then it is at its end. */
#define FILE_BYTES (1 << 20)
/* Numbers of the streams that files get; below is the stream of the calls. */
#define FIRST_FILE 1u
#define MAX_ENTROPY 256

static struct {
    int (*open)(const char *, int, ...);
    int (*openat)(int, const char *, int, ...);
    FILE *(*fopen)(const char *, const char *);
} next;

/* Words of 8 bytes that calls have read, and files that were opened. */
static _Atomic uint64_t n_words;
static _Atomic uint32_t n_files;

static long result_of(long result)
{
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

static bool has_seed(void)
{
    return is_attached() && page->has_random_seed;
}

/* SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
static uint64_t mix(uint64_t number)
{
    number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9u;
    number = (number ^ (number >> 27)) * 0x94d049bb133111ebu;
    return number ^ (number >> 31);
}

static uint64_t word_of(uint32_t stream, uint64_t index)
{
    static const uint64_t step = 0x9e3779b97f4a7c15u;
    return mix(mix(page->random_seed + (stream + 1) * step) + (index + 1) * step);
}

static void fill_from(uint32_t stream, uint64_t index, void *bytes, size_t n)
{
    for (unsigned char *next_bytes = bytes; n > 0; index++) {
        uint64_t word = word_of(stream, index);
        size_t n_now = n < sizeof word ? n : sizeof word;
        memcpy(next_bytes, &word, n_now);
        next_bytes += n_now;
        n -= n_now;
    }
}

static void fill(void *bytes, size_t n)
{
    fill_from(0, atomic_fetch_add(&n_words, (n + sizeof(uint64_t) - 1) / sizeof(uint64_t)), bytes, n);
}

/* --- calls --------------------------------------------------------------------------------------------------- */

PUBLIC ssize_t getrandom(void *bytes, size_t n, unsigned int flags)
{
    if (!has_seed())
        return result_of(clock_call(SYS_getrandom, bytes, n, flags));
    fill(bytes, n);
    return (ssize_t)n;
}

PUBLIC int getentropy(void *bytes, size_t n)
{
    if (n > MAX_ENTROPY) {
        errno = EIO;
        return -1;
    }
    for (size_t n_done = 0; n_done < n;) {
        ssize_t n_now = getrandom((char *)bytes + n_done, n - n_done, 0);
        if (n_now < 0 && errno != EINTR)
            return -1;
        n_done += n_now > 0 ? (size_t)n_now : 0;
    }
    return 0;
}

/* arc4random since glibc 2.36. */
void arc4random_buf(void *bytes, size_t n);
uint32_t arc4random(void);
uint32_t arc4random_uniform(uint32_t limit);

PUBLIC void arc4random_buf(void *bytes, size_t n)
{
    for (size_t n_done = 0; n_done < n;) {
        size_t n_now = n - n_done < MAX_ENTROPY ? n - n_done : MAX_ENTROPY;
        if (getentropy((char *)bytes + n_done, n_now) != 0)
            __builtin_trap(); /* it cannot report an error, and must not return what is not random */
        n_done += n_now;
    }
}

PUBLIC uint32_t arc4random(void)
{
    uint32_t number;
    arc4random_buf(&number, sizeof number);
    return number;
}

PUBLIC uint32_t arc4random_uniform(uint32_t limit)
{
    if (limit < 2)
        return 0;
    uint32_t n_excess = -limit % limit; /* so many of the lowest numbers would make some results more frequent */
    uint32_t number;
    do
        number = arc4random();
    while (number < n_excess);
    return number % limit;
}

/* std::random_device of libstdc++, which asks the CPU (rdrand, rdseed). */
unsigned int random_device(void *device) __asm__("_ZNSt13random_device9_M_getvalEv");
unsigned int random_device_pretr1(void *device) __asm__("_ZNSt13random_device16_M_getval_pretr1Ev");

PUBLIC unsigned int random_device(void *device)
{
    (void)device;
    return arc4random();
}

PUBLIC unsigned int random_device_pretr1(void *device)
{
    (void)device;
    return arc4random();
}

/* --- files --------------------------------------------------------------------------------------------------- */

static bool is_random_file(const char *path)
{
    return path != NULL && (strcmp(path, "/dev/urandom") == 0 || strcmp(path, "/dev/random") == 0) && has_seed();
}

/* An anonymous file with the beginning of a separate stream; -1 if memory is exhausted. */
static int open_stream(int flags)
{
    int fd = memfd_create("soulslab-random", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
    if (fd < 0 || ftruncate(fd, FILE_BYTES) != 0)
        return fd;
    void *bytes = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) {
        close(fd);
        return -1;
    }
    fill_from(FIRST_FILE + atomic_fetch_add(&n_files, 1), 0, bytes, FILE_BYTES);
    munmap(bytes, FILE_BYTES);
    return fd;
}

__attribute__((constructor(102))) static void find_next(void)
{
    next.open = dlsym(RTLD_NEXT, "open");
    next.openat = dlsym(RTLD_NEXT, "openat");
    next.fopen = dlsym(RTLD_NEXT, "fopen");
}

/* The mode is there only if a file may be made. */
static mode_t mode_of(int flags, va_list rest)
{
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

static int open_file(const char *path, int flags, mode_t mode)
{
    if (is_random_file(path))
        return open_stream(flags);
    int pad = open_pad(path, flags);
    if (pad != NOT_A_PAD)
        return pad;
    if (next.open != NULL)
        return next.open(path, flags, mode);
    return (int)result_of(clock_call(SYS_openat, AT_FDCWD, path, flags, mode));
}

static int open_file_at(int folder, const char *path, int flags, mode_t mode)
{
    if (is_random_file(path))
        return open_stream(flags);
    int pad = open_pad(path, flags);
    if (pad != NOT_A_PAD)
        return pad;
    if (next.openat != NULL)
        return next.openat(folder, path, flags, mode);
    return (int)result_of(clock_call(SYS_openat, folder, path, flags, mode));
}

#define WITH_MODE(call)                                                                                                \
    va_list rest;                                                                                                      \
    va_start(rest, flags);                                                                                             \
    mode_t mode = mode_of(flags, rest);                                                                                \
    va_end(rest);                                                                                                      \
    return call

PUBLIC int open(const char *path, int flags, ...)
{
    WITH_MODE(open_file(path, flags, mode));
}

PUBLIC int open64(const char *path, int flags, ...)
{
    WITH_MODE(open_file(path, flags | O_LARGEFILE, mode));
}

PUBLIC int openat(int folder, const char *path, int flags, ...)
{
    WITH_MODE(open_file_at(folder, path, flags, mode));
}

PUBLIC int openat64(int folder, const char *path, int flags, ...)
{
    WITH_MODE(open_file_at(folder, path, flags | O_LARGEFILE, mode));
}

/* What programs call that were compiled with _FORTIFY_SOURCE. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int folder, const char *path, int flags);
int __openat64_2(int folder, const char *path, int flags);

PUBLIC int __open_2(const char *path, int flags)
{
    return open_file(path, flags, 0);
}

PUBLIC int __open64_2(const char *path, int flags)
{
    return open_file(path, flags | O_LARGEFILE, 0);
}

PUBLIC int __openat_2(int folder, const char *path, int flags)
{
    return open_file_at(folder, path, flags, 0);
}

PUBLIC int __openat64_2(int folder, const char *path, int flags)
{
    return open_file_at(folder, path, flags | O_LARGEFILE, 0);
}

PUBLIC FILE *fopen(const char *restrict path, const char *restrict mode)
{
    if (is_random_file(path)) {
        int fd = open_stream(strchr(mode, 'e') != NULL ? O_CLOEXEC : 0);
        return fd < 0 ? NULL : fdopen(fd, mode);
    }
    if (next.fopen == NULL)
        next.fopen = dlsym(RTLD_NEXT, "fopen");
    return next.fopen(path, mode);
}

PUBLIC FILE *fopen64(const char *restrict path, const char *restrict mode)
{
    return fopen(path, mode);
}
