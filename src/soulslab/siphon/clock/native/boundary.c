/* Detecting the tick boundary of a thread that never sleeps.
 *
 * While game time stands, a loop that never sleeps repeats itself. The number of repetitions would depend on the
 * machine, so the thread is held at one place of its loop. That place must not lie between the moment at which the
 * thread sees the new time and the work scheduled for that time. Otherwise the work of this tick is done with the next
 * one, and a tick is lost.
 *
 * The library sees these marks of a thread: it reads the time, it finds its event queue empty (a look), it takes an
 * event, it sends requests to the X server (drawing). A mark has a place: the call and the callers above it.
 *
 * A cycle is closed when the thread comes back to the place where it first read the time of this generation, has drawn
 * since, and has taken no event since. Then the whole body of the loop has run with the new time and with an empty
 * queue, and what would come next is a repetition. The thread is held at the look directly before that place if there
 * is one, so that keys that are pressed meanwhile are seen before the new time is; otherwise in the read itself.
 *
 * A thread that draws nothing in a repetition costs little, so it is held at a look, after several idle looks. A thread
 * that only reads the time is held after many reads at one place. docs/clock.md has the proof and the limits.
 */
#define _GNU_SOURCE
#include "preload.h"

/* A thread is held when the weights of its idle looks since its last progress add up to this. A look by the event
 * function of a toolkit has the weight LOOK_EXACT, as the queue is empty then. An empty connection has the weight
 * LOOK_RAW, as a toolkit may hold events that it has read before. */
#define IDLE_LIMIT (4 * LOOK_EXACT)
/* A loop that takes an event and draws in each repetition, for example one that posts events to itself. */
#define DRAW_LIMIT 32
/* Cycles until a thread is held with the boundary "idle", or one that has waited by itself: it will do so again. */
#define IDLE_CYCLES 8
/* Reads at changing places count less than reads at one place. */
#define MIXED_READS 10

/* Callers are searched for in this many words of the stack, and this many of them identify a place. */
#define STACK_WORDS 192
#define PLACE_CALLERS 2
#define HASH 0x9e3779b97f4a7c15ull

void begin_generation(uint32_t generation)
{
    self.cycle = (struct cycle){.generation = generation, .last_look = self.cycle.last_look};
}

/* Identify a place of the program by the return address of the call, its stack depth, and the nearest callers in the
 * code of the program itself. The last distinguish two calls of one library function at the same depth. */
static uint64_t place_of(struct call call)
{
    uint64_t place = ((uint64_t)(uintptr_t)call.caller * HASH) ^ (uint64_t)(uintptr_t)call.frame;
    uintptr_t from = (uintptr_t)call.frame;
    if (from >= self.stack_low && from < self.stack_high) {
        size_t n_words = (self.stack_high - from) / sizeof(uintptr_t);
        const uintptr_t *words = call.frame;
        int n_found = 0;
        for (size_t i = 0; i < n_words && i < STACK_WORDS && n_found < PLACE_CALLERS; i++)
            if (words[i] >= program_start && words[i] < program_end) {
                place = (place ^ words[i]) * HASH;
                n_found++;
            }
    }
    return place | 1; /* 0 stands for no place */
}

static bool is_cycle_closed(void)
{
    uint32_t boundary = atomic_load_explicit(&page->boundary, memory_order_relaxed);
    bool is_patient = self.has_waited || boundary == CLOCK_BOUNDARY_IDLE;
    return self.cycle.has_drawn && self.cycle.n_cycles + 1 >= (is_patient ? IDLE_CYCLES : 1);
}

static bool is_drawing_on(void)
{
    return self.cycle.n_draws >= DRAW_LIMIT;
}

static bool is_after_frame(uint32_t boundary)
{
    return boundary == CLOCK_BOUNDARY_FRAME && self.cycle.first_read != 0 && self.cycle.has_drawn;
}

static bool is_boundary_at_read(uint64_t place)
{
    struct cycle *cycle = &self.cycle;
    uint32_t boundary = atomic_load_explicit(&page->boundary, memory_order_relaxed);
    uint32_t spin_reads = atomic_load_explicit(&page->spin_reads, memory_order_relaxed);
    if (boundary == CLOCK_BOUNDARY_SLEEP)
        return false;
    return (place == cycle->first_read && is_cycle_closed()) || is_drawing_on() || is_after_frame(boundary) ||
           cycle->n_same_reads >= spin_reads || cycle->n_reads / MIXED_READS >= spin_reads;
}

static bool is_boundary_at_look(uint64_t place)
{
    uint32_t boundary = atomic_load_explicit(&page->boundary, memory_order_relaxed);
    if (boundary == CLOCK_BOUNDARY_SLEEP)
        return false;
    return (place == self.cycle.look_before && is_cycle_closed()) || self.cycle.n_idle >= IDLE_LIMIT ||
           is_drawing_on() || is_after_frame(boundary);
}

/* Wait until game time moves on, as a thread that sleeps does. */
static void hold(struct clock_moment *moment)
{
    uint32_t generation = moment->generation;
    int saved_errno = errno;
    self.has_waited = false;
    while (moment->generation == generation && moment->is_frozen) {
        set_deadline(HELD_NS);
        park(generation, CLOCK_WAIT_TIME);
        clock_futex_wait(&page->generation, generation, CHECK_NS);
        look(moment);
    }
    await_turn(CLOCK_FOREVER);
    unpark();
    errno = saved_errno;
}

void at_read(struct clock_moment *moment, struct call call)
{
    if (!moment->is_frozen)
        return;
    struct cycle *cycle = &self.cycle;
    uint64_t place = place_of(call);
    if (is_boundary_at_read(place))
        hold(moment);
    if (cycle->first_read == 0) {
        cycle->first_read = place;
        cycle->look_before = cycle->last_look;
        cycle->has_drawn = false;
    } else if (place == cycle->first_read && cycle->has_drawn) {
        cycle->n_cycles++;
        cycle->has_drawn = false;
    }
    cycle->n_same_reads = place == cycle->last_read ? cycle->n_same_reads + 1 : 1;
    cycle->last_read = place;
    cycle->n_reads++;
    if (self.slot != NULL) /* only this thread writes it */
        atomic_store_explicit(&self.slot->n_reads, atomic_load_explicit(&self.slot->n_reads, memory_order_relaxed) + 1,
                              memory_order_relaxed);
    cycle->has_read_since_look = cycle->has_read_since_drawing = true;
    cycle->last_look = 0;
}

void before_look(struct call call)
{
    update_pads();
    struct clock_moment moment;
    int saved_errno = errno;
    clock_look(page, &moment);
    if (moment.generation != self.cycle.generation)
        begin_generation(moment.generation);
    if (moment.is_frozen) {
        uint64_t place = place_of(call);
        if (is_boundary_at_look(place)) {
            int64_t seen_ns = self.seen_ns;
            hold(&moment);
            self.seen_ns = seen_ns; /* the program has not read the time yet */
        }
        self.cycle.look = place;
    }
    errno = saved_errno;
}

void after_idle_look(uint32_t weight)
{
    struct cycle *cycle = &self.cycle;
    if (cycle->has_read_since_look) {
        cycle->n_idle += weight;
        cycle->has_read_since_look = false;
        cycle->n_reads = cycle->n_same_reads = 0;
    }
    cycle->last_look = cycle->look;
}

void after_event(void)
{
    struct cycle *cycle = &self.cycle;
    cycle->first_read = cycle->look_before = cycle->last_look = 0;
    cycle->n_cycles = cycle->n_idle = cycle->n_reads = cycle->n_same_reads = 0;
    cycle->has_drawn = false;
}

void after_drawing(void)
{
    struct cycle *cycle = &self.cycle;
    if (cycle->has_read_since_drawing)
        cycle->n_draws++;
    cycle->has_read_since_drawing = false;
    cycle->has_drawn = true;
    cycle->n_idle = cycle->n_reads = cycle->n_same_reads = 0;
    cycle->last_look = 0;
}
