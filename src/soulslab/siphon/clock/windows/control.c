/* The controller's side of the page, called from Python through ctypes. */
#include "views.h"

#define EXPORT __declspec(dllexport)

/* How long the game may run before the first attempt to find out whether its threads are blocked, if the last step ended
 * so, and otherwise. Each further attempt comes half as late again. */
#define FIRST_PROOF_NS CLOCK_MS
#define UNLIKELY_PROOF_NS (20 * CLOCK_MS)
/* A thread is blocked if so many samples are equal, and the last is so much later than the first. A call of the kernel
 * that is about to return must not take longer than that. A thread that has been woken has to get on meanwhile. How long
 * that takes depends on the load of the machine: a sample shows it, as the thread has to run for it, too. */
#define N_SAMPLES 4
#define SAMPLE_MS 10
#define TIMES_AS_LONG_AS_A_SAMPLE 10
/* More blocked threads than these are not sampled. */
#define N_SAMPLED 512

/* Results of soulslab_clock_wait. */
enum { RUNS, PARKED, STILL, CROWDED };
enum threads_state { THREADS_RUN, THREADS_WAIT_FOR_TIME, THREADS_WAIT_FOR_EACH_OTHER };

/* All that return an int give 0 or a negative error code of the system, unless they say otherwise. */

static int last_error(void)
{
    int code = (int)GetLastError();
    return code != 0 ? -code : -ERROR_GEN_FAILURE;
}

/* Make a page whose time is held at 0, or runs at 1x from now. Returns the handle of its mapping. */
EXPORT int soulslab_clock_create(int is_held)
{
    uint64_t key;
    HANDLE mapping = create_page(is_held, &key);
    return mapping == NULL ? last_error() : (int)(intptr_t)mapping;
}

/* Open the page of a running game; returns the handle of its mapping. */
EXPORT int soulslab_clock_open(uint32_t pid)
{
    wchar_t name[NAME_CHARACTERS];
    page_name(name, pid, OF_PROCESS);
    HANDLE small = OpenFileMappingW(FILE_MAP_READ, FALSE, name);
    if (small == NULL)
        return last_error();
    const uint64_t *key = MapViewOfFile(small, FILE_MAP_READ, 0, 0, sizeof *key);
    HANDLE mapping = NULL;
    if (key != NULL) {
        page_name(name, *key, L"");
        mapping = OpenFileMappingW(FILE_MAP_ALL_ACCESS, FALSE, name);
    }
    int code = mapping == NULL ? last_error() : (int)(intptr_t)mapping;
    if (key != NULL)
        UnmapViewOfFile(key);
    CloseHandle(small);
    return code;
}

EXPORT void soulslab_clock_close(int mapping)
{
    CloseHandle((HANDLE)(intptr_t)mapping);
}

/* Let the clocks of the game begin at these times. Random sources are not fixed on Windows. */
EXPORT void soulslab_clock_fix_start(struct clock_page *page, int64_t epoch_ns, int64_t boot_ns, uint64_t random_seed)
{
    (void)random_seed;
    page->base_ns[BASE_EPOCH] = epoch_ns;
    page->base_ns[BASE_COUNTER] = page->base_ns[BASE_BOOT] = boot_ns;
}

EXPORT int soulslab_clock_map(int mapping, struct clock_page **mapped)
{
    struct clock_view *view = map_view((HANDLE)(intptr_t)mapping);
    if (view == NULL)
        return last_error();
    *mapped = view->page;
    return 0;
}

EXPORT void soulslab_clock_unmap(struct clock_page *page)
{
    unmap_view(view_of(page));
}

/* Become the controller; an error if there is one. The mutex is not locked: that it exists says that its owner lives. */
EXPORT int soulslab_clock_own(struct clock_page *page, int mapping, int on_orphan)
{
    (void)mapping;
    wchar_t name[NAME_CHARACTERS];
    page_name(name, page->key, L"-owner");
    HANDLE owner = CreateMutexW(NULL, FALSE, name);
    if (owner == NULL)
        return last_error();
    if (GetLastError() == ERROR_ALREADY_EXISTS) {
        CloseHandle(owner);
        return -ERROR_ALREADY_EXISTS;
    }
    view_of(page)->handles[OWNER] = owner;
    atomic_store(&page->n_watchers, 0); /* one that was killed while it waited is still counted */
    clock_set_pad(page, &(struct clock_pad){0});
    atomic_store(&page->on_orphan, (uint32_t)on_orphan);
    atomic_store(&page->owner, (int32_t)GetCurrentProcessId());
    return 0;
}

EXPORT void soulslab_clock_disown(struct clock_page *page, int mapping)
{
    (void)mapping;
    struct clock_view *view = view_of(page);
    atomic_store(&page->owner, 0);
    CloseHandle(view->handles[OWNER]);
    view->handles[OWNER] = NULL;
}

EXPORT int soulslab_clock_owner(struct clock_page *page)
{
    return atomic_load(&page->owner);
}

/* Connect a gamepad, at rest; returns whether there was one. */
EXPORT int soulslab_clock_connect_pad(struct clock_page *page)
{
    return (int)atomic_exchange(&page->has_pad, 1);
}

EXPORT void soulslab_clock_set_pad(struct clock_page *page, const struct clock_pad *pad)
{
    clock_set_pad(page, pad);
}

EXPORT uint64_t soulslab_clock_key(struct clock_page *page)
{
    return page->key;
}

/* Whether a process has loaded the library with this page. */
EXPORT int soulslab_clock_has_process(struct clock_page *page, int pid)
{
    for (int i = 0; i < CLOCK_N_PROCESSES; i++)
        if (atomic_load(&page->processes[i]) == pid)
            return 1;
    return 0;
}

EXPORT void soulslab_clock_set_boundary(struct clock_page *page, uint32_t boundary, uint32_t spin_reads)
{
    atomic_store(&page->spin_reads, spin_reads);
    atomic_store(&page->boundary, boundary);
}

EXPORT void soulslab_clock_publish(struct clock_page *page, int64_t speed, int64_t jump_ns, int64_t run_ns)
{
    clock_publish(page, speed, jump_ns, run_ns);
}

/* Game time; also when the game started (-1: not yet) and the speed now. */
EXPORT int64_t soulslab_clock_now(struct clock_page *page, int64_t *started_ns, int64_t *speed)
{
    struct clock_moment moment;
    clock_look(page, &moment);
    *started_ns = atomic_load(&page->started_ns);
    *speed = moment.is_frozen ? 0 : moment.speed;
    return moment.virtual_ns;
}

/* How often the threads of the game have read the time while it stood. */
EXPORT uint64_t soulslab_clock_time_reads(struct clock_page *page)
{
    uint64_t n_reads = 0;
    uint32_t n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots; i++)
        n_reads += atomic_load(&page->slots[i].n_reads);
    return n_reads;
}

/* Loops that read the counter of the processor are not found on Windows. */
EXPORT uint64_t soulslab_clock_counter_at(struct clock_page *page)
{
    return atomic_load(&page->counter_at);
}

/* No loop is held because of its duration on Windows. */
EXPORT uint64_t soulslab_clock_take_loop(struct clock_page *page)
{
    return atomic_exchange(&page->loop_at, 0);
}

static uint64_t count_returns(struct clock_page *page)
{
    uint64_t n_returns = 0;
    uint32_t n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots; i++)
        n_returns += atomic_load(&page->slots[i].n_returns);
    return n_returns + atomic_load(&page->n_claims);
}

static enum threads_state find_state(struct clock_page *page, uint32_t generation)
{
    uint32_t n_slots = atomic_load(&page->n_slots);
    int n_threads = 0, n_others = 0;
    for (uint32_t i = 0; i < n_slots; i++) {
        struct clock_slot *slot = &page->slots[i];
        if (atomic_load(&slot->tid) == 0)
            continue;
        if (atomic_load(&slot->parked) != generation)
            return THREADS_RUN;
        n_threads++;
        n_others += atomic_load(&slot->kind) != CLOCK_WAIT_TIME;
    }
    if (n_threads == 0)
        return THREADS_RUN;
    return n_others > 0 && n_threads > 1 ? THREADS_WAIT_FOR_EACH_OTHER : THREADS_WAIT_FOR_TIME;
}

/* What identifies the place where a thread is blocked: the instruction, the stack, and the registers that a function of
 * the system preserves. */
struct sample {
    struct clock_slot *slot;
    DWORD64 registers[10];
};

/* Functions of the system that wait until another thread, a device or the time ends the wait; a thread in any other one, as
 * one that draws, is not blocked, however long it takes. Each of them is a call of the kernel of at most STUB_SIZE bytes. */
#define STUB_SIZE 32
static const char *const waits[] = {
    "NtWaitForAlertByThreadId", "NtWaitForKeyedEvent",           "NtWaitForSingleObject",
    "NtWaitForMultipleObjects", "NtDelayExecution",              "NtRemoveIoCompletion",
    "NtRemoveIoCompletionEx",   "NtWaitForWorkViaWorkerFactory", "NtUserGetMessage",
    "NtUserWaitMessage",        "NtUserMsgWaitForMultipleObjectsEx", "NtReadFile",
    "NtFsControlFile",          "NtDeviceIoControlFile",
};

static bool is_in_wait(DWORD64 address)
{
    /* The libraries of the system have the same addresses in all processes. */
    static const wchar_t *const libraries[] = {L"ntdll.dll", L"win32u.dll"};
    for (int i = 0; i < 2; i++) {
        HMODULE library = GetModuleHandleW(libraries[i]);
        for (size_t k = 0; k < sizeof waits / sizeof *waits && library != NULL; k++) {
            DWORD64 start = (DWORD64)GetProcAddress(library, waits[k]);
            if (start != 0 && address - start < STUB_SIZE)
                return true;
        }
    }
    return false;
}

/* Sample a thread; false if it is not in a function of the system that waits. To be suspended it has to run for
 * a moment, so one that has been woken gets on between two samples. `longest_ns` grows to the time that this took. */
static bool take_sample(struct clock_slot *slot, struct sample *sample, int64_t *longest_ns)
{
    CONTEXT context = {.ContextFlags = CONTEXT_CONTROL | CONTEXT_INTEGER};
    int32_t tid = atomic_load(&slot->tid);
    int64_t started_ns = clock_real_ns();
    HANDLE thread = OpenThread(THREAD_SUSPEND_RESUME | THREAD_GET_CONTEXT | SYNCHRONIZE, FALSE, (DWORD)tid);
    bool has_ended = thread == NULL ? GetLastError() == ERROR_INVALID_PARAMETER : WaitForSingleObject(thread, 0) == WAIT_OBJECT_0;
    if (has_ended) /* it was terminated, so the library in the game was not told */
        atomic_compare_exchange_strong(&slot->tid, &tid, 0);
    if (thread == NULL)
        return false;
    bool is_known = !has_ended && SuspendThread(thread) != (DWORD)-1;
    if (is_known) {
        is_known = GetThreadContext(thread, &context);
        ResumeThread(thread);
    }
    int64_t taken_ns = clock_real_ns() - started_ns;
    *longest_ns = taken_ns > *longest_ns ? taken_ns : *longest_ns;
    CloseHandle(thread);
    *sample = (struct sample){slot, {context.Rip, context.Rsp, context.Rbx, context.Rbp, context.Rsi, context.Rdi,
                                     context.R12, context.R13, context.R14, context.R15}};
    return is_known && is_in_wait(context.Rip);
}

static bool is_same(const struct sample *one, const struct sample *other)
{
    for (int i = 0; i < 10; i++)
        if (one->registers[i] != other->registers[i])
            return false;
    return true;
}

/* Whether the threads that have not parked are blocked: in functions that the library does not replace, such as those of
 * critical sections. The others have to stay parked meanwhile. A thread in a function that the library replaces is not
 * blocked: it is about to park. */
static bool are_blocked(struct clock_page *page, uint32_t generation)
{
    struct sample next, *first = HeapAlloc(GetProcessHeap(), HEAP_GENERATE_EXCEPTIONS, N_SAMPLED * sizeof *first);
    uint64_t n_returns = count_returns(page);
    uint32_t n_slots = atomic_load(&page->n_slots);
    int64_t longest_ns = SAMPLE_MS * CLOCK_MS / TIMES_AS_LONG_AS_A_SAMPLE;
    bool is_blocked = true;
    int n = 0;
    for (uint32_t i = 0; i < n_slots && is_blocked; i++) {
        struct clock_slot *slot = &page->slots[i];
        uint32_t parked = atomic_load(&slot->parked);
        if (atomic_load(&slot->tid) != 0 && parked != generation)
            is_blocked = n < N_SAMPLED && take_sample(slot, &first[n++], &longest_ns) && parked == 0;
    }
    for (int i = 1; i < N_SAMPLES && is_blocked; i++) {
        Sleep(i == N_SAMPLES - 1 ? to_wait_ms(longest_ns * TIMES_AS_LONG_AS_A_SAMPLE) : 0);
        for (int k = 0; k < n && is_blocked; k++)
            is_blocked = atomic_load(&first[k].slot->parked) == 0 && take_sample(first[k].slot, &next, &longest_ns) &&
                         is_same(&first[k], &next);
    }
    HeapFree(GetProcessHeap(), 0, first);
    return is_blocked && n > 0 && count_returns(page) == n_returns && atomic_load(&page->generation) == generation;
}

/* A thread that waits for another one, or for a message of it, may have been woken and not have run yet. The proof that
 * none was is a second generation without any change: every thread comes out of its wait, finds that it still has to
 * wait, and parks again. If all of them have parked in both, and none has returned to the program from before the first
 * check until after the second, then no code of the program ran in between that could have woken a thread, and those
 * that had been woken earlier would have returned. */
EXPORT int soulslab_clock_wait(struct clock_page *page, int pid, int64_t timeout_ns)
{
    (void)pid;
    struct clock_view *view = view_of(page);
    int64_t started_ns = clock_real_ns(), deadline_ns = started_ns + timeout_ns;
    int64_t proof_ns = started_ns + (atomic_load(&page->needs_proof) ? FIRST_PROOF_NS : UNLIKELY_PROOF_NS);
    uint64_t n_returns = 0;
    uint32_t second = 0; /* generation */
    int result = RUNS;
    atomic_fetch_add(&page->n_watchers, 1);
    for (;;) {
        uint64_t n_before = count_returns(page);
        struct clock_moment moment;
        clock_look(page, &moment);
        enum threads_state state = moment.is_frozen ? find_state(page, moment.generation) : THREADS_RUN;
        if (state == THREADS_WAIT_FOR_TIME ||
            (state != THREADS_RUN && moment.generation == second && count_returns(page) == n_returns)) {
            result = PARKED;
            break;
        }
        if (state == THREADS_WAIT_FOR_EACH_OTHER) {
            n_returns = n_before;
            clock_publish(page, 0, 0, CLOCK_FOREVER);
            second = atomic_load(&page->generation);
            continue;
        }
        if (moment.is_frozen && moment.real_ns >= proof_ns) {
            if (are_blocked(page, moment.generation)) {
                result = STILL;
                break;
            }
            int64_t now_ns = clock_real_ns();
            proof_ns = now_ns + (now_ns - started_ns) / 2;
        }
        if (moment.real_ns >= deadline_ns)
            break;
        int64_t next_ns = moment.is_frozen && proof_ns < deadline_ns ? proof_ns : deadline_ns;
        WaitForSingleObject(view->handles[ARRIVAL], next_ns > moment.real_ns ? to_wait_ms(next_ns - moment.real_ns) : 0);
    }
    if (result != RUNS)
        atomic_store(&page->needs_proof, result == STILL);
    atomic_fetch_sub(&page->n_watchers, 1);
    return result != RUNS && atomic_load(&page->is_crowded) ? CROWDED : result;
}

/* Let so much game time pass at once, and wait. */
EXPORT int soulslab_clock_step(struct clock_page *page, int pid, int64_t jump_ns, int64_t timeout_ns)
{
    clock_publish(page, 0, jump_ns, CLOCK_FOREVER);
    return soulslab_clock_wait(page, pid, timeout_ns);
}

/* Find the threads of a process that wait for time in the library; returns how many there are, `n` at most. */
EXPORT int soulslab_clock_parked(struct clock_page *page, int pid, int *tids, int n)
{
    int n_found = 0;
    uint32_t generation = atomic_load(&page->generation), n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots && n_found < n; i++) {
        struct clock_slot *slot = &page->slots[i];
        if (atomic_load(&slot->pid) == pid && atomic_load(&slot->parked) == generation)
            tids[n_found++] = atomic_load(&slot->tid);
    }
    return n_found;
}

/* On Windows a game is proven to stand without looking at other processes. */
EXPORT void soulslab_clock_set_servers(struct clock_page *page, const int *pids, int n)
{
    (void)page, (void)pids, (void)n;
}

/* Return whether all threads of the game stand. */
EXPORT int soulslab_clock_is_still(struct clock_page *page, int pid)
{
    return soulslab_clock_wait(page, pid, 0) != RUNS;
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)module, (void)reason, (void)reserved;
    return TRUE;
}
