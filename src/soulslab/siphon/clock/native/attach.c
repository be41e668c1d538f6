/* Finds the page, the wrapped functions, and a slot for each waiting thread; detects the death of the controller.
 *
 * Everything here may run inside any call for the time: in a signal handler, under a lock of malloc, before main. So
 * it uses neither malloc nor locks, and until it is ready calls go to the kernel.
 */
#define _GNU_SOURCE
#include "pad.h"

#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* Documented exit status (docs/clock.md). */
#define ORPHAN_STATUS 97
/* Out of the way of programs that expect the first free numbers. */
#define LOWEST_FD 200

struct real real;
struct clock_page *page;
__thread struct thread self __attribute__((tls_model("initial-exec"))) = {.seen_ns = -1};

enum { UNTRIED, TRYING, ATTACHED, ABSENT };
static _Atomic int state = UNTRIED;
static int page_fd = -1;
static ino_t page_inode;
static pthread_key_t exit_key;
static pid_t own_pid;
uintptr_t program_start, program_end;
extern void *__libc_stack_end;
/* The most of the main thread's stack that is ever read, whatever its limit. */
#define MAIN_STACK_BYTES (64ul << 20)

int64_t clock_real_ns(void)
{
    struct timespec now;
    if (real.clock_gettime == NULL)
        clock_call(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    else
        real.clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * CLOCK_SECOND + now.tv_nsec;
}

#ifdef __x86_64__
static long call_kernel(long number, const long *arguments)
{
    register long fourth __asm__("r10") = arguments[3], fifth __asm__("r8") = arguments[4];
    register long sixth __asm__("r9") = arguments[5];
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(arguments[0]), "S"(arguments[1]), "d"(arguments[2]), "r"(fourth), "r"(fifth),
                       "r"(sixth)
                     : "rcx", "r11", "memory");
    return result;
}
#else
static long call_kernel(long number, const long *arguments)
{
    static long (*real_syscall)(long, ...);
    if (real_syscall == NULL)
        real_syscall = dlsym(RTLD_NEXT, "syscall");
    long result =
        real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
    return result == -1 ? -errno : result;
}
#endif

long clock_call(long number, ...)
{
    va_list list;
    long arguments[6];
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        arguments[i] = va_arg(list, long);
    va_end(list);
    return call_kernel(number, arguments);
}

/* pthread_cond_* have an old version on x86-64, of another size, which dlsym may give. */
static void *find(const char *name)
{
    void *found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found != NULL ? found : dlsym(RTLD_NEXT, name);
}

static void find_real(void)
{
    real.nanosleep = dlsym(RTLD_NEXT, "nanosleep");
    real.read = dlsym(RTLD_NEXT, "read");
    real.close = dlsym(RTLD_NEXT, "close");
    real.rwlock_timedrdlock = dlsym(RTLD_NEXT, "pthread_rwlock_timedrdlock");
    real.rwlock_timedwrlock = dlsym(RTLD_NEXT, "pthread_rwlock_timedwrlock");
    real.rwlock_clockrdlock = dlsym(RTLD_NEXT, "pthread_rwlock_clockrdlock");
    real.rwlock_clockwrlock = dlsym(RTLD_NEXT, "pthread_rwlock_clockwrlock");
    real.timedjoin = dlsym(RTLD_NEXT, "pthread_timedjoin_np");
    real.clockjoin = dlsym(RTLD_NEXT, "pthread_clockjoin_np");
    real.mq_timedsend = dlsym(RTLD_NEXT, "mq_timedsend");
    real.mq_timedreceive = dlsym(RTLD_NEXT, "mq_timedreceive");
    real.semtimedop = dlsym(RTLD_NEXT, "semtimedop");
    real.pause = dlsym(RTLD_NEXT, "pause");
    real.sigsuspend = dlsym(RTLD_NEXT, "sigsuspend");
    real.sigtimedwait = dlsym(RTLD_NEXT, "sigtimedwait");
    real.clock_nanosleep = dlsym(RTLD_NEXT, "clock_nanosleep");
    real.poll = dlsym(RTLD_NEXT, "poll");
    real.ppoll = dlsym(RTLD_NEXT, "ppoll");
    real.select = dlsym(RTLD_NEXT, "select");
    real.pselect = dlsym(RTLD_NEXT, "pselect");
    real.epoll_wait = dlsym(RTLD_NEXT, "epoll_wait");
    real.epoll_pwait = dlsym(RTLD_NEXT, "epoll_pwait");
    real.epoll_pwait2 = dlsym(RTLD_NEXT, "epoll_pwait2");
    real.cond_timedwait = find("pthread_cond_timedwait");
    real.cond_clockwait = find("pthread_cond_clockwait");
    real.sem_timedwait = dlsym(RTLD_NEXT, "sem_timedwait");
    real.sem_clockwait = dlsym(RTLD_NEXT, "sem_clockwait");
    real.mutex_timedlock = dlsym(RTLD_NEXT, "pthread_mutex_timedlock");
    real.mutex_clocklock = dlsym(RTLD_NEXT, "pthread_mutex_clocklock");
    real.pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    real.fork = dlsym(RTLD_NEXT, "fork");
    real.connect = dlsym(RTLD_NEXT, "connect");
    real.recvmsg = dlsym(RTLD_NEXT, "recvmsg");
    real.sendmsg = dlsym(RTLD_NEXT, "sendmsg");
    real.writev = dlsym(RTLD_NEXT, "writev");
    /* Last: from here on clock_real_ns uses it. */
    real.clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
}

/* The first object that the loader lists is the program. */
static int find_program(struct dl_phdr_info *object, size_t size, void *nothing)
{
    (void)size, (void)nothing;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        program_start = object->dlpi_addr + part->p_vaddr;
        program_end = program_start + part->p_memsz;
    }
    return 1;
}

static void free_slot(struct clock_slot *slot)
{
    atomic_store(&slot->parked, 0);
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->tid, 0);
}

static void forget_thread(void *slot)
{
    (void)slot;
    if (self.slot != NULL) {
        free_slot(self.slot);
        /* A controller that waits for this thread checks again. */
        atomic_fetch_add(&page->arrivals, 1);
        clock_futex(&page->arrivals, FUTEX_WAKE, INT_MAX, NULL);
    }
    if (self.waiter != NULL) {
        int fd = atomic_exchange(&self.waiter->wake_fd, -1);
        if (fd >= 0)
            real.close(fd);
        atomic_store(&self.waiter->is_used, 0);
    }
    self = (struct thread){.seen_ns = -1};
}

static void enlist(void)
{
    own_pid = getpid();
    clock_enlist(page, own_pid);
    /* wineserver, wineserver64, wineserver32 */
    if (strncmp(program_invocation_short_name, "wineserver", strlen("wineserver")) == 0)
        atomic_store(&page->wine_server, own_pid);
}

/* Make this the slot of this thread, which runs from now on. */
static void adopt_slot(struct clock_slot *slot)
{
    is_main_thread(); /* sets self.tid */
    atomic_store(&slot->tid, self.tid);
    atomic_store(&slot->until_ns, CLOCK_FOREVER);
    atomic_store(&slot->parked, 0);
    self.slot = slot;
    /* The keys of the first programs come without malloc; ours is one of the first. */
    pthread_setspecific(exit_key, slot);
}

/* The new process has one thread, and that one is not the thread that its memory says it is. */
static void after_fork(void)
{
    struct clock_slot *slot = self.forked_slot;
    int32_t parent = own_pid;
    self = (struct thread){.seen_ns = -1, .stack_low = self.stack_low, .stack_high = self.stack_high};
    enlist();
    reset_timers();
    reset_helper();
    reset_pads();
    /* It fails if the parent has ended and another thread has taken the slot. */
    if (slot != NULL && atomic_compare_exchange_strong(&slot->pid, &parent, own_pid))
        adopt_slot(slot);
    this_thread();
}

/* SOULSLAB_CLOCK is PATH#KEY. The path leads through the controller, and may lead elsewhere when that is gone; so only
 * a page that bears the key is ours. */
static bool map_page(void)
{
    const char *place = getenv("SOULSLAB_CLOCK");
    const char *mark = place == NULL ? NULL : strchr(place, '#');
    char path[64];
    if (mark == NULL || mark - place >= (ptrdiff_t)sizeof path)
        return false;
    memcpy(path, place, (size_t)(mark - place));
    path[mark - place] = 0;
    uint64_t key = strtoull(mark + 1, NULL, 16);
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return false;
    page_fd = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_FD);
    if (page_fd < 0)
        page_fd = fd;
    else
        close(fd);
    struct stat about;
    void *mapped = MAP_FAILED;
    if (fstat(page_fd, &about) == 0 && about.st_size >= (off_t)sizeof(struct clock_page))
        mapped = mmap(NULL, sizeof(struct clock_page), PROT_READ | PROT_WRITE, MAP_SHARED, page_fd, 0);
    struct clock_page *found = mapped;
    if (mapped == MAP_FAILED || found->magic != CLOCK_MAGIC || found->layout != CLOCK_LAYOUT || found->key != key) {
        if (mapped != MAP_FAILED)
            munmap(mapped, sizeof(struct clock_page));
        close(page_fd);
        return false;
    }
    page_inode = about.st_ino;
    page = found;
    return true;
}

/* The process may have run another program before, and then its threads have slots: one of them is that of this thread,
 * the others have ended. */
static void adopt_slots_of_program_before(void)
{
    uint32_t n_slots = atomic_load(&page->n_slots);
    is_main_thread(); /* sets self.tid */
    for (uint32_t i = 0; i < n_slots; i++) {
        struct clock_slot *slot = &page->slots[i];
        if (atomic_load(&slot->pid) != own_pid)
            continue;
        if (self.slot == NULL && atomic_load(&slot->tid) == self.tid)
            adopt_slot(slot);
        else
            free_slot(slot);
    }
}

static void begin_main_thread(void)
{
    struct rlimit limit;
    uintptr_t size = MAIN_STACK_BYTES;
    if (getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur < size)
        size = limit.rlim_cur;
    self.stack_high = (uintptr_t)__libc_stack_end;
    self.stack_low = self.stack_high - size;
    adopt_slots_of_program_before();
    this_thread();
    install_sampling();
}

bool is_attached(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (now == ATTACHED)
        return true;
    if (now != UNTRIED || !atomic_compare_exchange_strong(&state, &now, TRYING))
        return false; /* TRYING: this is a call from within find_real, or a thread that was faster than the loader */
    find_real();
    if (!map_page()) {
        atomic_store(&state, ABSENT);
        return false;
    }
    enlist();
    pthread_key_create(&exit_key, forget_thread);
    pthread_atfork(NULL, NULL, after_fork);
    dl_iterate_phdr(find_program, NULL);
    struct clock_moment moment;
    clock_look(page, &moment);
    int64_t none = -1;
    atomic_compare_exchange_strong(&page->started_ns, &none, moment.virtual_ns);
    atomic_store_explicit(&state, ATTACHED, memory_order_release);
    begin_main_thread();
    return true;
}

__attribute__((constructor(101))) static void at_load(void)
{
    is_attached();
}

bool is_main_thread(void)
{
    if (self.tid == 0)
        self.tid = (int32_t)clock_call(SYS_gettid);
    return self.tid == own_pid;
}

/* A slot of a process that was killed is free again. One whose pid is 0 and whose tid is not is just being taken. */
static bool take_slot(struct clock_slot *slot)
{
    int32_t tid = atomic_load(&slot->tid);
    if (tid != 0) {
        int32_t pid = atomic_load(&slot->pid);
        if (pid == 0 || pid == own_pid || !clock_has_ended(pid) || !atomic_compare_exchange_strong(&slot->pid, &pid, 0))
            return false;
    }
    return atomic_compare_exchange_strong(&slot->tid, &tid, self.tid);
}

/* Take a slot for a thread of this process in that state; NULL if there is none. */
static struct clock_slot *claim_slot(uint32_t parked)
{
    is_main_thread(); /* sets self.tid */
    int saved_errno = errno;
    for (uint32_t i = 0; i < CLOCK_N_SLOTS; i++) {
        struct clock_slot *slot = &page->slots[i];
        if (!take_slot(slot))
            continue;
        atomic_store(&slot->parked, parked);
        atomic_store(&slot->pid, own_pid);
        atomic_fetch_add(&page->n_claims, 1);
        uint32_t n_slots = atomic_load(&page->n_slots);
        while (n_slots < i + 1 && !atomic_compare_exchange_weak(&page->n_slots, &n_slots, i + 1))
            ;
        errno = saved_errno;
        return slot;
    }
    atomic_store(&page->is_crowded, 1);
    errno = saved_errno;
    return NULL;
}

struct thread *this_thread(void)
{
    if (self.slot != NULL)
        return &self;
    struct clock_slot *slot = claim_slot(0);
    if (slot != NULL)
        adopt_slot(slot);
    return &self;
}

static void announce_arrival(void)
{
    atomic_fetch_add(&page->arrivals, 1);
    if (atomic_load(&page->n_watchers) != 0)
        clock_futex(&page->arrivals, FUTEX_WAKE, INT_MAX, NULL);
}

void park_slot(struct clock_slot *slot, uint32_t generation, enum clock_wait kind)
{
    atomic_store(&slot->kind, kind);
    atomic_store(&slot->parked, generation);
    announce_arrival();
}

/* A timer that expires while a thread parks must not be missed: the step would end before the thread has handled the
 * signal. So a thread that is about to park says so first, then looks for signals and files, and parks only if the
 * helper has not expired a timer since (alert_all). */
bool begin_park(uint32_t generation)
{
    struct clock_slot *slot = this_thread()->slot;
    if (slot == NULL || atomic_load(&slot->parked) == generation)
        return false;
    atomic_store(&slot->parked, CLOCK_PARKING);
    return true;
}

bool finish_park(uint32_t generation, enum clock_wait kind)
{
    uint32_t parking = CLOCK_PARKING;
    atomic_store(&self.slot->kind, kind);
    if (!atomic_compare_exchange_strong(&self.slot->parked, &parking, generation))
        return parking == generation; /* the helper has parked it */
    announce_arrival();
    return true;
}

void park(uint32_t generation, enum clock_wait kind)
{
    struct clock_slot *slot = this_thread()->slot;
    if (slot == NULL || atomic_load_explicit(&slot->parked, memory_order_relaxed) == generation)
        return;
    if (!has_timers()) {
        park_slot(slot, generation, kind);
        return;
    }
    while (begin_park(generation)) {
        clock_call(SYS_gettid); /* signals are delivered on the way back from the kernel */
        if (finish_park(generation, kind))
            return;
    }
}

/* A thread that waits for time while time runs is in a futex, as one that waits for another thread. The difference is
 * that it has to look at the clock when that changes. */
void alert(void)
{
    struct clock_slot *slot = this_thread()->slot;
    if (slot != NULL)
        atomic_store(&slot->parked, CLOCK_ALERTED);
}

void alert_all(void)
{
    uint32_t n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots; i++) {
        struct clock_slot *slot = &page->slots[i];
        uint32_t parked = atomic_load(&slot->parked);
        if (slot == self.slot || atomic_load(&slot->pid) != own_pid)
            continue;
        while (parked != 0 && parked != CLOCK_DUE && !atomic_compare_exchange_weak(&slot->parked, &parked, CLOCK_ALERTED))
            ;
    }
}

void unpark(void)
{
    if (self.slot == NULL)
        return;
    atomic_store_explicit(&self.slot->until_ns, CLOCK_FOREVER, memory_order_relaxed);
    atomic_store(&self.slot->parked, 0);
}

/* A thread has its slot before it is created, so that no step ends while it has still to run. */
struct start {
    void *(*function)(void *);
    void *argument;
    struct clock_slot *slot; /* NULL: there are too many threads */
};

static void *start_thread(void *given)
{
    struct start start = *(struct start *)given;
    pthread_attr_t attributes;
    void *low;
    size_t size;
    free(given);
    if (start.slot != NULL)
        adopt_slot(start.slot);
    if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
        if (pthread_attr_getstack(&attributes, &low, &size) == 0) {
            self.stack_low = (uintptr_t)low;
            self.stack_high = self.stack_low + size;
        }
        pthread_attr_destroy(&attributes);
    }
    return start.function(start.argument);
}

PUBLIC int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *argument)
{
    if (!is_attached())
        return real.pthread_create(thread, attributes, function, argument);
    struct start *start = malloc(sizeof *start);
    if (start == NULL)
        return EAGAIN;
    *start = (struct start){function, argument, claim_slot(CLOCK_STARTING)};
    struct clock_slot *slot = start->slot;
    int error = real.pthread_create(thread, attributes, start_thread, start);
    if (error != 0) {
        free(start);
        if (slot != NULL)
            free_slot(slot);
    }
    return error;
}

/* A process, too: the child takes the slot in after_fork. */
PUBLIC pid_t fork(void)
{
    if (!is_attached())
        return real.fork();
    struct clock_slot *slot = self.forked_slot = claim_slot(CLOCK_STARTING);
    pid_t child = real.fork();
    int saved_errno = errno;
    self.forked_slot = NULL;
    if (child < 0 && slot != NULL)
        free_slot(slot);
    errno = saved_errno;
    return child;
}

static bool has_owner(int32_t owner)
{
    struct stat about;
    struct flock lock = clock_owner_lock(F_WRLCK);
    if (fstat(page_fd, &about) == 0 && about.st_ino == page_inode && fcntl(page_fd, F_OFD_GETLK, &lock) == 0)
        return lock.l_type != F_UNLCK;
    /* The game has closed our descriptor, as daemons close all. */
    return !clock_has_ended(owner);
}

/* Wine's programs do not notice when their server is gone. It ends them first if it is interrupted. */
static void end_process(void)
{
    static _Atomic bool is_interrupted;
    if (atomic_load(&page->wine_server) != own_pid)
        _exit(ORPHAN_STATUS);
    if (!atomic_exchange(&is_interrupted, true))
        kill(own_pid, SIGINT);
}

void check_owner(int64_t real_ns)
{
    if (atomic_load_explicit(&page->is_ending, memory_order_relaxed)) {
        end_process();
        return;
    }
    int64_t checked_ns = atomic_load_explicit(&page->checked_ns, memory_order_relaxed);
    if (real_ns - checked_ns < CHECK_NS || !atomic_compare_exchange_strong(&page->checked_ns, &checked_ns, real_ns))
        return;
    int32_t owner = atomic_load(&page->owner);
    if (owner == 0)
        return;
    int saved_errno = errno;
    /* Only one of us acts; a new controller has put its own id there, and then none does. */
    if (!has_owner(owner) && atomic_compare_exchange_strong(&page->owner, &owner, 0)) {
        switch (atomic_load(&page->on_orphan)) {
        case CLOCK_ORPHAN_RUN:
            clock_publish(page, CLOCK_UNIT_SPEED, 0, CLOCK_FOREVER);
            break;
        case CLOCK_ORPHAN_PAUSED:
            clock_publish(page, 0, 0, CLOCK_FOREVER);
            break;
        default:
            atomic_store(&page->is_ending, 1);
            clock_publish(page, CLOCK_UNIT_SPEED, 0, CLOCK_FOREVER);
            end_process();
        }
    }
    errno = saved_errno;
}
