/* Mapped clock pages and their events: what the game and its controller share on Windows, beside the page itself.
 *
 * Windows has no futex between processes. A thread that waits for the end of a generation waits for one of two events:
 * the generations use them in turn. A third event says that all threads have parked. The events and the page have names
 * that contain the key of the page.
 */
#ifndef SOULSLAB_VIEWS_H
#define SOULSLAB_VIEWS_H

#include "../native/clock_page.h"

/* The library has to stay small, so functions that are called in many places are not repeated there. */
#define SMALL __attribute__((noinline))
#define NAME_CHARACTERS 64
#define CLOCK_VARIABLE L"SOULSLAB_CLOCK"
#define CHECK_MS 100
/* Indices in base_ns: the time since 1970, the performance counter, the time since boot. */
enum { BASE_EPOCH = 0, BASE_COUNTER = 1, BASE_BOOT = 7 };

/* Two ends of generations, with manual reset; arrivals of threads, with automatic reset; the owner, a mutex that exists
 * while the controller lives and that only the controller has. */
enum { END_0, END_1, ARRIVAL, OWNER, N_HANDLES };

struct clock_view {
    struct clock_page *_Atomic page; /* NULL: free */
    HANDLE handles[N_HANDLES];
};

/* "Local\soulslab-clock-KEY" and a suffix. */
void page_name(wchar_t *name, uint64_t key, const wchar_t *suffix);
/* Suffix of the mapping with the key of the page of a process, whose own key is the process id. */
#define OF_PROCESS L"-of"
/* Make a page whose time is held at 0, or runs at 1x from now. Returns its mapping; NULL and the error of the system. */
HANDLE create_page(bool is_held, uint64_t *key);
/* Map a page; NULL and the error of the system, or ERROR_REVISION_MISMATCH. */
struct clock_view *map_view(HANDLE mapping);
void unmap_view(struct clock_view *view);
struct clock_view *view_of(struct clock_page *page);

static inline HANDLE end_of(const struct clock_view *view, uint32_t generation)
{
    return view->handles[END_0 + ((generation >> 1) & 1)];
}

/* count * multiplier / divisor without an overflow; the divisor times the multiplier has to fit. */
SMALL int64_t scale(int64_t count, int64_t multiplier, int64_t divisor);
int64_t counter_hz(void);

/* How long it is in real time until a game time; CLOCK_FOREVER while time stands. */
SMALL int64_t real_time_until_ns(const struct clock_moment *moment, int64_t until_ns);
static inline DWORD to_wait_ms(int64_t real_ns)
{
    return real_ns >= CHECK_MS * CLOCK_MS ? CHECK_MS : (DWORD)((real_ns + CLOCK_MS - 1) / CLOCK_MS);
}

#endif
