/* Timers that expire in game time (timers.c), and their files (timerfd.c). */
#ifndef SOULSLAB_TIMERS_H
#define SOULSLAB_TIMERS_H

#include "preload.h"

/* Beyond that timer_create and timerfd_create fail with EAGAIN and EMFILE. */
#define N_TIMERS 256

enum timer_kind { TIMER_FREE, TIMER_ALARM, TIMER_SIGNAL, TIMER_FILE };

/* Everything is read and written under lock_timers. */
struct timer {
    enum timer_kind kind;
    clockid_t clock;
    int64_t until_ns; /* game time; CLOCK_FOREVER: not armed */
    int64_t interval_ns;
    int64_t n_overruns;    /* of the signal that was sent last */
    bool is_pending;       /* a signal was sent, and may not have been delivered yet */
    struct sigevent event; /* TIMER_SIGNAL */
    size_t stack_bytes;    /* of the threads of SIGEV_THREAD; 0: default */
    int fd, own_fd;        /* TIMER_FILE: a descriptor of the game, and ours for the same file */
};

void lock_timers(sigset_t *before);
void unlock_timers(sigset_t *before);
struct timer *take_timer(enum timer_kind kind, clockid_t clock); /* NULL: there are too many */
struct timer *find_timer(enum timer_kind kind, bool (*is_right)(const struct timer *, int), int key);
void get_timer(const struct timer *timer, struct itimerspec *value);
/* Returns whether the helper has to look at it at once: call await_helper when the lock is released. */
bool set_timer(struct timer *timer, clockid_t clock, bool is_absolute, const struct itimerspec *value);
int get_overrun(const struct timer *timer);
bool is_timer_clock(clockid_t clock);
bool is_valid_itimerspec(const struct itimerspec *value);

/* timerfd.c */
void expire_timer_file(struct timer *timer, int64_t n_expired);

#endif
