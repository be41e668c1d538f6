/* What the files of the library that is loaded into the game share. */
#ifndef SOULSLAB_PRELOAD_H
#define SOULSLAB_PRELOAD_H

#include "clock_page.h"

#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/time.h>

#define PUBLIC __attribute__((visibility("default")))
/* Interval at which waiting threads check that the controller is alive, in real time. */
#define CHECK_NS (100 * CLOCK_MS)
/* The deadline of a thread that never sleeps and is held: it is due in each step. Its turn comes after those of the
 * threads that sleep, as it may wait for one of them in a loop. */
#define HELD_NS INT64_MIN

/* The functions that we stand before. */
struct real {
    int (*clock_gettime)(clockid_t, struct timespec *);
    int (*nanosleep)(const struct timespec *, struct timespec *);
    int (*clock_nanosleep)(clockid_t, int, const struct timespec *, struct timespec *);
    int (*poll)(struct pollfd *, nfds_t, int);
    int (*ppoll)(struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
    int (*select)(int, fd_set *, fd_set *, fd_set *, struct timeval *);
    int (*pselect)(int, fd_set *, fd_set *, fd_set *, const struct timespec *, const sigset_t *);
    int (*epoll_wait)(int, struct epoll_event *, int, int);
    int (*epoll_pwait)(int, struct epoll_event *, int, int, const sigset_t *);
    int (*epoll_pwait2)(int, struct epoll_event *, int, const struct timespec *, const sigset_t *);
    int (*cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    int (*cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*sem_timedwait)(sem_t *, const struct timespec *);
    int (*sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
    int (*mutex_timedlock)(pthread_mutex_t *, const struct timespec *);
    int (*mutex_clocklock)(pthread_mutex_t *, clockid_t, const struct timespec *);
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    pid_t (*fork)(void);
    int (*connect)(int, const struct sockaddr *, socklen_t);
    ssize_t (*recvmsg)(int, struct msghdr *, int);
    ssize_t (*sendmsg)(int, const struct msghdr *, int);
    ssize_t (*writev)(int, const struct iovec *, int);
    ssize_t (*read)(int, void *, size_t);
    int (*close)(int);
    int (*rwlock_timedrdlock)(pthread_rwlock_t *, const struct timespec *);
    int (*rwlock_timedwrlock)(pthread_rwlock_t *, const struct timespec *);
    int (*rwlock_clockrdlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
    int (*rwlock_clockwrlock)(pthread_rwlock_t *, clockid_t, const struct timespec *);
    int (*timedjoin)(pthread_t, void **, const struct timespec *);
    int (*clockjoin)(pthread_t, void **, clockid_t, const struct timespec *);
    int (*mq_timedsend)(mqd_t, const char *, size_t, unsigned, const struct timespec *);
    ssize_t (*mq_timedreceive)(mqd_t, char *, size_t, unsigned *, const struct timespec *);
    int (*semtimedop)(int, struct sembuf *, size_t, const struct timespec *);
    int (*pause)(void);
    int (*sigsuspend)(const sigset_t *);
    int (*sigtimedwait)(const sigset_t *, siginfo_t *, const struct timespec *);
};
extern struct real real;

/* What another thread of ours has to do to wake a thread that does not wait on the page itself. */
enum waiter_state { WAITER_IDLE, WAITER_WAITS, WAITER_BUSY };
struct waiter {
    _Atomic int32_t is_used;
    _Atomic int32_t state;
    _Atomic int32_t wake_fd;
    /* It waits for the condition or the futex that is not NULL, else on wake_fd. */
    pthread_cond_t *_Atomic cond;
    uint32_t *_Atomic futex;
    int futex_operation; /* that wakes it */
    _Atomic int64_t until_ns;     /* game time that it waits for */
    _Atomic uint32_t seen;        /* generation that has been taken note of, by it or for it */
    _Atomic uint32_t is_woken;    /* the helper signalled its condition */
    _Atomic uint32_t is_timed;    /* its condition ends by itself, at a real time that holds for the line it has seen */
    enum clock_wait kind;
    _Atomic uint32_t n_fires;     /* of timers, when it looked for signals and files last */
    struct clock_slot *slot;      /* NULL: there are too many threads */
};

/* A call of a function of ours: where it returns to, and our stack frame. */
struct call {
    const void *caller;
    const void *frame;
};
#define THIS_CALL() ((struct call){__builtin_return_address(0), __builtin_frame_address(0)})

/* What a thread has done in one generation while time stands (boundary.c). A place is 0 if there is none. */
struct cycle {
    uint32_t generation;
    uint64_t first_read;  /* place of the first read of the time since the last event */
    uint64_t look_before; /* place of the previous poll */
    uint64_t last_read;
    uint64_t last_look; /* place of the last mark if that is a look */
    uint64_t look;      /* place of the current poll for events */
    uint32_t n_cycles;  /* closed cycles with drawing */
    uint32_t n_draws;
    uint32_t n_idle; /* weight of the idle looks since the last progress */
    uint32_t n_reads;
    uint32_t n_same_reads; /* at one place in a row */
    bool has_drawn;        /* since the first read */
    bool has_read_since_look;
    bool has_read_since_drawing;
};

struct thread {
    struct clock_slot *slot;
    struct clock_slot *forked_slot; /* of the process that is being created */
    struct waiter *waiter;
    int32_t tid;
    int64_t seen_ns; /* game time that it saw last; -1 for none */
    uintptr_t stack_low, stack_high;
    struct cycle cycle;
    bool has_waited; /* by itself, and has not been held since */
    uint32_t turn; /* the last ordered generation in which it had its turn */
    volatile sig_atomic_t was_sampled; /* by the signal of spin.c, since it was set to 0 */
};
/* initial-exec: the other kind of TLS may allocate memory at the first access. */
extern __thread struct thread self __attribute__((tls_model("initial-exec")));

extern struct clock_page *page;

/* attach.c */
bool is_attached(void); /* maps the page at the first call; false: all calls go straight through */
struct thread *this_thread(void);
bool is_main_thread(void);
extern uintptr_t program_start, program_end; /* the code of the program itself */
void park(uint32_t generation, enum clock_wait kind);
void park_slot(struct clock_slot *slot, uint32_t generation, enum clock_wait kind);
void unpark(void);
bool begin_park(uint32_t generation); /* false: it is parked already, or has no slot */
bool finish_park(uint32_t generation, enum clock_wait kind); /* false: a timer has expired since begin_park */
void alert(void);     /* this thread waits for time, and has to look again when the clock changes */
void alert_all(void); /* the threads of this process that are parked look for signals and files again */
void check_owner(int64_t real_ns);

/* read.c */
bool is_virtual(clockid_t clock);
void look(struct clock_moment *moment); /* and remember what this thread saw */

/* boundary.c */
#define LOOK_EXACT 16u
#define LOOK_RAW 1u
void begin_generation(uint32_t generation);
void at_read(struct clock_moment *moment, struct call call); /* before a read returns; may wait for time to move */
void before_look(struct call call);                          /* likewise, before the program looks for events */
void after_idle_look(uint32_t weight);                       /* the poll returned without an event */
void after_event(void);                                      /* the program has taken an event */
void after_drawing(void);                                    /* the program has sent requests to the X server */

/* spin.c */
void install_sampling(void);

/* sleep.c */
int64_t after(int64_t duration_ns);                /* game time, so long after now */
int64_t real_wait_until_ns(const struct clock_moment *moment, int64_t until_ns); /* CHECK_NS at most */
int64_t real_time_until_ns(const struct clock_moment *moment, int64_t until_ns); /* on this line; may be for ever */
bool sleep_until(int64_t until_ns); /* false: a signal came */
void set_deadline(int64_t until_ns); /* of the wait that this thread begins; until unpark() */
void await_turn(int64_t until_ns);   /* after that wait: let the threads go on that were due before */
void hold_signals(sigset_t *before); /* until release_signals(before), for this thread */
void release_signals(void *before);
/* The mask for a blocking call: `mask`, or the one of this thread if that is NULL, and the signal of spin.c. */
const sigset_t *without_samples(sigset_t *copy, const sigset_t *mask);
/* Make a call that the signal of spin.c may end, and again if it did. */
#define REPEAT_SAMPLED(result, call)                                    \
    do {                                                                \
        self.was_sampled = 0;                                           \
        result = (call);                                                \
    } while (result < 0 && errno == EINTR && self.was_sampled)

/* poll.c */
int wait_with_mask(struct pollfd *all, nfds_t n, int64_t until_ns, const sigset_t *mask);
int wait_for_files(struct pollfd *all, nfds_t n, int64_t until_ns, const sigset_t *mask);

/* lock.c */
/* A call with a deadline that has to be made again when the clock changes. */
struct timed_wait {
    int (*call)(struct timed_wait *wait, clockid_t clock, const struct timespec *deadline); /* an error number */
    void *object;
    pthread_cond_t *cond; /* or NULL */
    pthread_mutex_t *mutex;
    bool is_sliced;     /* it cannot be woken without a cause: the real deadlines are short */
    int operation;      /* of a futex */
    uint32_t value, mask;
    size_t n_bytes;     /* of a message, or the number of operations on semaphores */
    void *more;         /* the result of a thread, or the priority of a message */
    long result;
};
/* Wait until a game time; `clock` is for the real call. Returns an error number. */
int wait_until(struct timed_wait *wait, clockid_t clock, int64_t until_ns);
clockid_t clock_of(pthread_cond_t *cond);
int cond_until(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline);
int mutex_until(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *deadline);

/* helper.c */
struct waiter *begin_wait(pthread_cond_t *cond, int64_t until_ns, enum clock_wait kind); /* NULL: the helper is not running */
bool note(struct waiter *waiter, uint32_t generation); /* false: it is out of date already */
void end_wait(struct waiter *waiter);
bool start_helper(void);
uint32_t count_fires(void); /* how often timers have expired */
void await_helper(void); /* until it has looked at the timers */
void reset_helper(void); /* in a new process, which has only the thread that forked */

/* timers.c */
bool has_timers(void);             /* false: none has ever been armed in this process */
bool fire_timers(int64_t now_ns);  /* expire all that are due; returns whether there was one */
int64_t next_timer_ns(void);       /* game time; CLOCK_FOREVER for none */
void reset_timers(void);           /* in a new process */

/* pad.c */
bool update_pads(void); /* put new states of the gamepad into the queues of its devices; false: some are left */

static inline int64_t to_ns(const struct timespec *time)
{
    return time->tv_sec > CLOCK_FOREVER / CLOCK_SECOND / 2 ? CLOCK_FOREVER / 2 : time->tv_sec * CLOCK_SECOND + time->tv_nsec;
}

static inline struct timespec to_timespec(int64_t ns)
{
    return (struct timespec){ns / CLOCK_SECOND, ns % CLOCK_SECOND};
}

static inline bool is_valid(const struct timespec *time)
{
    return time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < CLOCK_SECOND;
}

#endif
