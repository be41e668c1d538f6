/* A program with the loop of a game, for the tests of the tick search.
 *
 * Usage: tick_program. Every 25 ms of CLOCK_MONOTONIC it makes a tick, and counts it in a struct on the heap that a
 * static pointer leads to. Static data holds a time in milliseconds and a count that starts again at 8.
 */
#include <stdlib.h>
#include <time.h>

#define TICK_NS 25000000

struct game {
    int unused[100];
    int n_ticks;
};

struct game *game;
volatile int time_ms, picture;

int main(void)
{
    struct timespec next;
    game = calloc(1, sizeof *game);
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (;;) {
        next.tv_nsec += TICK_NS;
        if (next.tv_nsec >= 1000000000) {
            next.tv_nsec -= 1000000000;
            next.tv_sec++;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
        ((volatile struct game *)game)->n_ticks++;
        picture = (picture + 1) % 8;
        time_ms = (int)(next.tv_sec * 1000 + next.tv_nsec / 1000000);
    }
}
