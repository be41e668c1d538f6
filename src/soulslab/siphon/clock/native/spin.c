/* Holding a thread that waits for time in a loop without any call, for example until another thread sets a variable.
 *
 * No function of the library is called in such a loop, so the controller samples the thread with a signal when it has
 * run for a while. A thread waits in a loop if it is found in one short piece of code each time that it has computed in
 * between, and if one of these is true:
 *
 * - all of its general registers have the same content each time: the loop has no counter and no result;
 * - it has computed for long in this loop, unless the boundary is "sleep". A loop that was found so several times is known,
 *   and found at once. It may also be one that computes for so long, so the controller reports it.
 *
 * A thread may enter a wait before the signal comes. The wait must not end then, as the program would see an end without
 * a cause: blocking calls hold the signal back (`without_samples`), and others are repeated (`was_sampled`).
 *
 * The thread is held in the handler of the signal until game time moves on. A loop that reads the counter of the
 * processor (rdtsc) waits for real time, so it is reported and not held.
 */
#define _GNU_SOURCE
#include "preload.h"

#include <string.h>
#include <sys/uio.h>
#include <ucontext.h>

#define N_SAMPLES 4
/* The thread has to have computed for so long between two samples. */
#define SAMPLE_CPU_NS (CLOCK_MS / 20)
/* The longest loop, in bytes of code. */
#define LOOP_BYTES 64
/* A loop that takes so long, with so many samples, waits. A game that computes so long for a tick is loading. */
#define LONG_LOOP_NS (250 * CLOCK_MS)
#define LONG_LOOP_SAMPLES 20
/* A loop is known when it was found so often. */
#define KNOWN_LOOP 3

#if defined(__x86_64__)
struct samples {
    uint32_t generation;
    int n;      /* in this loop */
    int n_same; /* of them, in a row with the same registers */
    int64_t first_cpu_ns;
    int64_t cpu_ns; /* when the handler returned last: the program has to have run since */
    greg_t registers[REG_RSP + 1]; /* REG_R8 to REG_RSP: all general registers */
    greg_t instruction;            /* of the first sample in this loop */
    greg_t known_instruction;      /* of the loop that was found last because of its duration */
    int n_known;
};
static __thread struct samples samples __attribute__((tls_model("initial-exec")));

static int64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_call(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &now);
    return to_ns(&now);
}

static bool is_near(greg_t one, greg_t other)
{
    return one - other < LOOP_BYTES && other - one < LOOP_BYTES;
}

static bool is_long_loop(struct samples *seen, int64_t cpu_ns)
{
    if (atomic_load_explicit(&page->boundary, memory_order_relaxed) == CLOCK_BOUNDARY_SLEEP)
        return false;
    if (seen->n >= N_SAMPLES && seen->n_known >= KNOWN_LOOP && is_near(seen->instruction, seen->known_instruction))
        return true;
    if (seen->n < LONG_LOOP_SAMPLES || cpu_ns - seen->first_cpu_ns < LONG_LOOP_NS)
        return false;
    seen->n_known = is_near(seen->instruction, seen->known_instruction) ? seen->n_known + 1 : 1;
    seen->known_instruction = seen->instruction;
    if (seen->n_known == 1)
        atomic_store(&page->loop_at, (uint64_t)seen->instruction);
    return true;
}

/* Read code of the program. The kernel copies it, as the pages beside the sampled place may not exist. Returns the
 * number of bytes that could be read. */
static long read_code(greg_t place, unsigned char *code, size_t size)
{
    struct iovec copy = {code, size}, source = {(void *)(uintptr_t)place, size};
    return clock_call(SYS_process_vm_readv, clock_call(SYS_getpid), &copy, 1, &source, 1, 0);
}

/* Return whether the sample interrupted a system call: the instruction before is "syscall", 0f 05. */
static bool is_in_system_call(const greg_t *registers)
{
    unsigned char code[2];
    return read_code(registers[REG_RIP] - 2, code, sizeof code) == sizeof code && code[0] == 0x0f && code[1] == 0x05;
}

/* Take a sample; return whether the thread waits in a loop. */
static bool is_spinning(struct samples *seen, uint32_t generation, const greg_t *registers)
{
    int64_t cpu_ns = thread_cpu_ns();
    bool is_loop = !is_in_system_call(registers) && seen->generation == generation && is_near(registers[REG_RIP], seen->instruction) &&
                   registers[REG_RSP] == seen->registers[REG_RSP];
    if (is_loop && cpu_ns - seen->cpu_ns < SAMPLE_CPU_NS)
        return false;
    bool is_same = is_loop && memcmp(seen->registers, registers, sizeof seen->registers) == 0;
    seen->n = is_loop ? seen->n + 1 : 1;
    seen->n_same = is_same ? seen->n_same + 1 : 1;
    seen->generation = generation;
    memcpy(seen->registers, registers, sizeof seen->registers);
    if (!is_loop) {
        seen->instruction = registers[REG_RIP];
        seen->first_cpu_ns = cpu_ns;
    }
    return seen->n_same >= N_SAMPLES || is_long_loop(seen, cpu_ns);
}

/* Return whether there is an instruction rdtsc (0f 31) or rdtscp (0f 01 f9) in the code around the sample. */
static bool reads_counter(const greg_t *registers)
{
    unsigned char code[2 * LOOP_BYTES];
    long n_bytes = read_code(registers[REG_RIP] - LOOP_BYTES, code, sizeof code);
    for (long i = 0; i + 2 < n_bytes; i++)
        if (code[i] == 0x0f && (code[i + 1] == 0x31 || (code[i + 1] == 0x01 && code[i + 2] == 0xf9)))
            return true;
    return false;
}

static void on_sample(int number, siginfo_t *about, void *context)
{
    (void)number, (void)about;
    int saved_errno = errno;
    struct clock_moment moment;
    self.was_sampled = 1;
    clock_look(page, &moment);
    const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    bool is_waiting = moment.is_frozen && is_spinning(&samples, moment.generation, registers);
    if (is_waiting && reads_counter(registers)) {
        atomic_store(&page->counter_at, (uint64_t)registers[REG_RIP]);
    } else if (is_waiting) {
        uint32_t generation = moment.generation;
        while (moment.generation == generation && moment.is_frozen) {
            set_deadline(HELD_NS);
            park(generation, CLOCK_WAIT_TIME);
            clock_futex_wait(&page->generation, generation, CHECK_NS);
            clock_look(page, &moment);
            check_owner(moment.real_ns);
        }
        await_turn(CLOCK_FOREVER);
        unpark();
    }
    samples.cpu_ns = thread_cpu_ns();
    errno = saved_errno;
}

/* Wine manages its own signals and stacks, and its programs wait in functions that this library wraps. */
void install_sampling(void)
{
    struct sigaction action = {.sa_sigaction = on_sample, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&action.sa_mask);
    if (strncmp(program_invocation_short_name, "wine", 4) != 0)
        sigaction(CLOCK_SAMPLE_SIGNAL, &action, NULL);
}
#else
void install_sampling(void)
{
}
#endif
