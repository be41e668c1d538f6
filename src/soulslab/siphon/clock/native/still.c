/* Proving that a game stands: that nothing of it can run before time gets on or something comes from outside.
 *
 * A main thread that waits for something else than time, as a worker or Wine's server, looks the same whether its answer
 * is just being worked out or will come only with time. So we look at everything that may be working on it: all threads
 * of all processes that the game consists of, and of the X server. A thread that sleeps, and has been switched to as
 * often as in a look before, has slept since then. If that is so for all of them, then there was a moment when all
 * slept, and sleepers wake each other no more.
 */
#define _GNU_SOURCE
#include "still.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS CLOCK_N_SLOTS

struct sleeper {
    int32_t tid;
    unsigned long long n_switches;
};

struct look {
    int n;
    struct sleeper sleepers[MAX_THREADS];
};

/* What was proven last, and what was learned on the way. */
struct proof {
    uint64_t key;        /* of the page */
    uint32_t generation; /* 0: none */
    struct look core, others;
    int starts[CLOCK_N_PROCESSES], ends[CLOCK_N_PROCESSES]; /* of each of the others in the look at them */
    int32_t restless[CLOCK_N_PROCESSES]; /* processes that were seen to run: looked at like the core from then on */
};

static unsigned long long number_after(const char *text, const char *name)
{
    const char *found = strstr(text, name);
    return found == NULL ? 0 : strtoull(found + strlen(name), NULL, 10);
}

static ssize_t read_text(int tasks_fd, const char *tid, const char *name, char *text, size_t size)
{
    char path[32];
    if (snprintf(path, sizeof path, "%.16s/%s", tid, name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int fd = openat(tasks_fd, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n_bytes = read(fd, text, size - 1);
    int error = errno;
    close(fd);
    errno = error;
    if (n_bytes >= 0)
        text[n_bytes] = 0;
    return n_bytes;
}

static bool add_process(struct look *look, int pid, bool is_core);

/* Add the children of a thread that waits for one: a new one does not have the page yet. */
static bool add_children(struct look *look, int tasks_fd, const char *tid)
{
    char text[4096], *next = text;
    bool are_asleep = read_text(tasks_fd, tid, "children", text, sizeof text) >= 0;
    for (long child; are_asleep && (child = strtol(next, &next, 10)) != 0;)
        are_asleep = add_process(look, (int)child, true);
    return are_asleep;
}

/* Return whether the thread is off its processor and waits for something that another thread brings about. Its state is
 * that of a sleeper shortly before it sleeps. Graphics and sound cards are waited for in ioctl, and they wake the threads
 * of the game by themselves. */
static bool is_off_processor(struct look *look, int tasks_fd, const char *tid)
{
    char text[256];
    ssize_t n_bytes = read_text(tasks_fd, tid, "syscall", text, sizeof text);
    if (n_bytes <= 0 || text[0] == 'r')
        return false;
    long call = strtol(text, NULL, 10);
    if (call == SYS_wait4 || call == SYS_waitid)
        return add_children(look, tasks_fd, tid);
    return call != SYS_ioctl;
}

/* Add a thread to the look; false if it may run. One that has ended is none. */
static bool add_thread(struct look *look, int tasks_fd, const char *tid, bool is_core)
{
    char text[4096];
    ssize_t n_bytes = read_text(tasks_fd, tid, "status", text, sizeof text);
    if (n_bytes <= 0)
        return n_bytes < 0 && (errno == ENOENT || errno == ESRCH);
    const char *state = strstr(text, "\nState:\t");
    if (state == NULL)
        return false;
    char letter = state[strlen("\nState:\t")];
    if (letter == 'Z' || letter == 'X')
        return true;
    if (letter != 'S' || look->n == MAX_THREADS || (is_core && !is_off_processor(look, tasks_fd, tid)))
        return false;
    /* Any change of the clock wakes our own helper, for a moment; what it leaves undone shows in the slots. */
    if (strncmp(text, "Name:\t" CLOCK_HELPER_NAME "\n", strlen("Name:\t" CLOCK_HELPER_NAME "\n")) == 0)
        return true;
    unsigned long long n_switches = number_after(text, "\nvoluntary_ctxt_switches:\t");
    n_switches += number_after(text, "\nnonvoluntary_ctxt_switches:\t");
    look->sleepers[look->n++] = (struct sleeper){atoi(tid), n_switches};
    return true;
}

static bool add_process(struct look *look, int pid, bool is_core)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (tasks == NULL)
        return errno == ENOENT || errno == ESRCH;
    bool is_asleep = true;
    struct dirent *entry;
    while (is_asleep && (entry = readdir(tasks)) != NULL)
        if (entry->d_name[0] != '.')
            is_asleep = add_thread(look, dirfd(tasks), entry->d_name, is_core);
    closedir(tasks);
    return is_asleep;
}

/* The core processes: the game, Wine's server, the X server, and others that were observed running. */
static bool look_at_core(struct clock_page *page, int pid, const struct proof *before, struct look *look)
{
    int32_t wine_server = atomic_load(&page->wine_server);
    look->n = 0;
    if (!add_process(look, pid, true) || (wine_server != 0 && wine_server != pid && !add_process(look, wine_server, true)))
        return false;
    for (int i = 0; i < CLOCK_N_SERVERS; i++) {
        int32_t server = atomic_load(&page->servers[i]);
        if (server != 0 && !add_process(look, server, true))
            return false;
    }
    for (int i = 0; i < CLOCK_N_PROCESSES; i++)
        if (before->restless[i] != 0 && !add_process(look, before->restless[i], true))
            return false;
    return true;
}

static bool is_same(const struct sleeper *ones, const struct sleeper *others, int n)
{
    for (int i = 0; i < n; i++)
        if (ones[i].tid != others[i].tid || ones[i].n_switches != others[i].n_switches)
            return false;
    return true;
}

static bool has_core_slept(const struct look *now, const struct look *before)
{
    return now->n == before->n && is_same(now->sleepers, before->sleepers, now->n);
}

/* Whether the other processes (many under Wine) sleep, and have slept since the previous scan. */
static bool are_others_asleep(struct clock_page *page, int pid, struct proof *before)
{
    struct look now = {.n = 0};
    int32_t wine_server = atomic_load(&page->wine_server);
    bool is_first = before->others.n == 0, have_slept = true;
    for (int i = 0; i < CLOCK_N_PROCESSES; i++) {
        int32_t other = atomic_load(&page->processes[i]);
        if (other == 0 || other == pid || other == wine_server || other == before->restless[i])
            continue;
        int start = now.n, n_before = before->ends[i] - before->starts[i];
        if (!add_process(&now, other, false)) {
            before->others.n = 0;
            return false;
        }
        const struct sleeper *sleepers_before = before->others.sleepers + before->starts[i];
        if (now.n - start != n_before || !is_same(now.sleepers + start, sleepers_before, n_before)) {
            before->restless[i] = is_first ? 0 : other;
            have_slept = false;
        }
        before->starts[i] = start;
        before->ends[i] = now.n;
    }
    before->others = now;
    return have_slept;
}

enum clock_threads_state clock_find_threads(struct clock_page *page, uint32_t generation, struct clock_threads *threads)
{
    uint32_t n_slots = atomic_load(&page->n_slots);
    enum clock_threads_state result = CLOCK_THREADS_WAIT;
    threads->n = threads->n_due = 0;
    for (uint32_t i = 0; i < n_slots; i++) {
        struct clock_slot *slot = &page->slots[i];
        /* First: a slot that is no longer CLOCK_STARTING has the thread that runs. */
        uint32_t parked = atomic_load(&slot->parked), kind = atomic_load(&slot->kind);
        int32_t tid = atomic_load(&slot->tid), owner = atomic_load(&slot->pid);
        if (tid == 0 || owner == 0 || (parked == generation && kind == CLOCK_WAIT_TIME))
            continue;
        if (parked != generation && clock_has_ended(owner))
            continue;
        if (parked == CLOCK_DUE) {
            threads->n_due++;
            continue;
        }
        if (parked != 0 && parked != generation)
            result = CLOCK_THREADS_RUN;
        if (parked == generation && kind == CLOCK_WAIT_FILE && result == CLOCK_THREADS_WAIT)
            result = CLOCK_THREADS_WAIT_FOR_FILES;
        if (threads->n < CLOCK_N_THREADS) {
            threads->pids[threads->n] = owner;
            threads->tids[threads->n] = tid;
        }
        threads->n++;
    }
    return result;
}

/* The files of a thread that are read in each step stay open: to open one takes longer than to read it. */
enum thread_file { THREAD_SYSCALL, THREAD_STAT, THREAD_SCHEDSTAT, THREAD_N_FILES };

struct thread_files {
    int pid, tid; /* 0: none */
    int fds[THREAD_N_FILES];
};

/* The open files of a clock, from clock_open_files to clock_close_files. */
#define CLOCK_N_CLOCKS 64
#define CLOCK_N_OPEN 8
static struct {
    struct clock_page *_Atomic page; /* NULL: free */
    struct thread_files files[CLOCK_N_OPEN];
} clocks[CLOCK_N_CLOCKS];

static int open_file(int pid, int tid, const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, tid, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void close_files(struct thread_files *files)
{
    for (int i = 0; i < THREAD_N_FILES && files->tid != 0; i++)
        if (files->fds[i] >= 0)
            close(files->fds[i]);
    files->tid = 0;
}

static void open_files(struct thread_files *files, int pid, int tid)
{
    static const char *const names[THREAD_N_FILES] = {"syscall", "stat", "schedstat"};
    close_files(files);
    for (int i = 0; i < THREAD_N_FILES; i++)
        files->fds[i] = open_file(pid, tid, names[i]);
    files->pid = pid;
    files->tid = tid;
}

void clock_open_files(struct clock_page *page)
{
    for (int i = 0; i < CLOCK_N_CLOCKS; i++) {
        struct clock_page *none = NULL;
        if (atomic_compare_exchange_strong(&clocks[i].page, &none, page))
            return;
    }
}

void clock_close_files(struct clock_page *page)
{
    for (int i = 0; i < CLOCK_N_CLOCKS; i++)
        if (atomic_load(&clocks[i].page) == page) {
            for (int j = 0; j < CLOCK_N_OPEN; j++)
                close_files(&clocks[i].files[j]);
            atomic_store(&clocks[i].page, NULL);
        }
}

static struct thread_files *files_of(struct clock_page *page, int tid)
{
    for (int i = 0; i < CLOCK_N_CLOCKS; i++)
        if (atomic_load_explicit(&clocks[i].page, memory_order_relaxed) == page)
            return &clocks[i].files[tid % CLOCK_N_OPEN];
    return NULL;
}

/* Read the files of one thread: the cached descriptors, or `own` if too many clocks are open. */
struct thread_reader {
    struct thread_files *files;
    struct thread_files own;
};

static struct thread_files *begin_reading(struct thread_reader *reader, struct clock_page *page, int pid, int tid)
{
    reader->own.tid = 0;
    reader->files = files_of(page, tid);
    if (reader->files == NULL)
        reader->files = &reader->own;
    if (reader->files->tid != tid || reader->files->pid != pid)
        open_files(reader->files, pid, tid);
    return reader->files;
}

/* Read a file as it is now; 0 or less if it cannot be read, as the thread has ended. */
static ssize_t read_now(struct thread_files *files, enum thread_file file, char *text, size_t size)
{
    ssize_t n_bytes = pread(files->fds[file], text, size - 1, 0);
    if (n_bytes <= 0) { /* another thread may have this id by now */
        open_files(files, files->pid, files->tid);
        n_bytes = pread(files->fds[file], text, size - 1, 0);
    }
    text[n_bytes > 0 ? n_bytes : 0] = 0;
    return n_bytes;
}

/* The kernel writes "running", or the number of the system call that the thread is blocked in. A thread that waits for
 * a futex is woken by other threads of the game only. A thread that has just been woken on an idle processor still counts
 * as blocked here (TASK_WAKING), but not in its state. */
static bool waits_for_futex(struct thread_files *files)
{
    char text[256];
    return read_now(files, THREAD_SYSCALL, text, sizeof text) > 0 && strtol(text, NULL, 10) == SYS_futex;
}

static bool sleeps(struct thread_files *files)
{
    char text[1024];
    if (read_now(files, THREAD_STAT, text, sizeof text) <= 0)
        return false;
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && name_end[1] == ' ' && name_end[2] == 'S';
}

/* One round over a thread: whether it waits for a futex (first) or sleeps (second), and its times on a processor. */
static bool look_at(struct clock_page *page, int pid, int tid, bool is_first, char *times, size_t size)
{
    struct thread_reader reader;
    struct thread_files *files = begin_reading(&reader, page, pid, tid);
    bool is_waiting = is_first ? read_now(files, THREAD_SCHEDSTAT, times, size) > 0 && waits_for_futex(files)
                               : sleeps(files) && read_now(files, THREAD_SCHEDSTAT, times, size) > 0;
    close_files(&reader.own);
    return is_waiting;
}

bool clock_are_blocked(struct clock_page *page, const struct clock_threads *threads)
{
    char before[CLOCK_N_THREADS][64], now[64];
    if (threads->n > CLOCK_N_THREADS)
        return false;
    /* One may wake another after the other was looked at. So each has to wait for a futex in a first round, to sleep in a
     * second round, and not to have run in between (schedstat: the time on a processor, and how often). Then there was a
     * moment between the two rounds at which all of them slept. */
    for (int i = 0; i < threads->n; i++)
        if (!look_at(page, threads->pids[i], threads->tids[i], true, before[i], sizeof before[i]))
            return false;
    for (int i = 0; i < threads->n; i++)
        if (!look_at(page, threads->pids[i], threads->tids[i], false, now, sizeof now) || strcmp(now, before[i]) != 0)
            return false;
    return true;
}

/* Return whether the thread handles the signal, does not block it, and has handled the last one (proc(5), "status"). */
static bool takes_samples(int pid, int tid)
{
    char text[4096];
    uint64_t bit = 1ull << (CLOCK_SAMPLE_SIGNAL - 1);
    int fd = open_file(pid, tid, "status");
    ssize_t n_bytes = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (n_bytes <= 0)
        return false;
    text[n_bytes] = 0;
    const char *caught = strstr(text, "\nSigCgt:\t"), *held = strstr(text, "\nSigBlk:\t");
    const char *pending = strstr(text, "\nSigPnd:\t");
    return caught != NULL && held != NULL && pending != NULL && (strtoull(caught + 9, NULL, 16) & bit) &&
           !((strtoull(held + 9, NULL, 16) | strtoull(pending + 9, NULL, 16)) & bit);
}

/* The kernel writes "running", or the number of a system call, or -1 for a thread that waits for memory. */
static bool is_running(int pid, int tid)
{
    char text[256];
    int fd = open_file(pid, tid, "syscall");
    ssize_t n_bytes = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    return n_bytes > 0 && (text[0] == 'r' || text[0] == '-');
}

void clock_sample(const struct clock_threads *threads)
{
    int running = -1;
    for (int i = 0; i < threads->n && i < CLOCK_N_THREADS; i++) {
        if (!is_running(threads->pids[i], threads->tids[i]))
            continue;
        if (running >= 0)
            return; /* one may be about to end the wait of the other */
        running = i;
    }
    if (running >= 0 && takes_samples(threads->pids[running], threads->tids[running]))
        syscall(SYS_tgkill, threads->pids[running], threads->tids[running], CLOCK_SAMPLE_SIGNAL);
}

bool clock_is_still(struct clock_page *page, int pid, uint32_t generation)
{
    static __thread struct proof before;
    struct look now;
    if (!atomic_load(&page->has_servers) || atomic_load(&page->is_incomplete))
        return false;
    if (before.key != page->key)
        before = (struct proof){.key = page->key};
    if (!look_at_core(page, pid, &before, &now))
        return false;
    /* The proof is valid until a core process runs, which only an external event can cause. */
    if (before.generation == generation && has_core_slept(&now, &before.core))
        return atomic_load(&page->generation) == generation;
    before.generation = 0;
    before.core = now;
    /* A process that is being created is not among the others yet. */
    struct clock_threads threads;
    if (clock_find_threads(page, generation, &threads) == CLOCK_THREADS_RUN)
        return false;
    if (!are_others_asleep(page, pid, &before) || !look_at_core(page, pid, &before, &now) ||
        !has_core_slept(&now, &before.core))
        return false;
    /* All slept, so it does not change while we look. */
    if (clock_find_threads(page, generation, &threads) == CLOCK_THREADS_RUN || atomic_load(&page->generation) != generation)
        return false;
    before.generation = generation;
    return true;
}
