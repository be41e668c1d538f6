#ifndef SOULSLAB_STILL_H
#define SOULSLAB_STILL_H

#include "clock_page.h"

/* The threads of the game that do not wait for time alone. */
#define CLOCK_N_THREADS 64
struct clock_threads {
    int n; /* more than CLOCK_N_THREADS if there are too many */
    int n_due; /* others that wait for their turn */
    int32_t pids[CLOCK_N_THREADS], tids[CLOCK_N_THREADS];
};
enum clock_threads_state { CLOCK_THREADS_WAIT, CLOCK_THREADS_WAIT_FOR_FILES, CLOCK_THREADS_RUN };

/* Find these threads. CLOCK_THREADS_WAIT: all others wait for time. CLOCK_THREADS_WAIT_FOR_FILES: a thread that
 * waits for time also waits for files. CLOCK_THREADS_RUN: a thread has not seen the new time yet. */
enum clock_threads_state clock_find_threads(struct clock_page *page, uint32_t generation, struct clock_threads *threads);

/* Whether all of these threads were blocked at one moment, each by another thread of the game. */
bool clock_are_blocked(struct clock_page *page, const struct clock_threads *threads);

/* Keep the files of threads open that this reads, as long as the page is mapped. */
void clock_open_files(struct clock_page *page);
void clock_close_files(struct clock_page *page);

/* Send the signal of spin.c to the only one of the threads that runs, if there is just one. */
void clock_sample(const struct clock_threads *threads);

/* Whether nothing of the game can run while the clock stands at this generation; false also if that cannot be told. */
bool clock_is_still(struct clock_page *page, int pid, uint32_t generation);

#endif
