/* The threads of the game: their slots in the page, and how the controller learns that they wait. */
#include "game.h"

/* Allocated when the page is mapped. */
static DWORD thread_index;

void allocate_thread_index(void)
{
    thread_index = TlsAlloc();
}

static struct clock_slot *claim_slot(void)
{
    for (uint32_t i = 0; i < CLOCK_N_SLOTS; i++) {
        struct clock_slot *slot = &page->slots[i];
        int32_t none = 0;
        if (atomic_load(&slot->tid) != 0 || !atomic_compare_exchange_strong(&slot->tid, &none, (int32_t)GetCurrentThreadId()))
            continue;
        atomic_store(&slot->pid, (int32_t)GetCurrentProcessId());
        uint32_t n_slots = atomic_load(&page->n_slots);
        while (n_slots <= i && !atomic_compare_exchange_strong(&page->n_slots, &n_slots, i + 1))
            ;
        atomic_fetch_add(&page->n_claims, 1);
        return slot;
    }
    atomic_store(&page->is_crowded, 1);
    return NULL;
}

struct thread *this_thread(void)
{
    DWORD error = GetLastError(); /* a program does not expect that reading the time changes it */
    struct thread *thread = TlsGetValue(thread_index);
    if (thread == NULL) {
        thread = HeapAlloc(GetProcessHeap(), HEAP_ZERO_MEMORY | HEAP_GENERATE_EXCEPTIONS, sizeof *thread);
        thread->slot = claim_slot();
        TlsSetValue(thread_index, thread);
    }
    SetLastError(error);
    return thread;
}

static void notify_arrival(uint32_t generation)
{
    if (atomic_load(&page->n_watchers) == 0)
        return;
    /* The last thread to park notifies the controller; of two that park at once each may find that it is the last. */
    uint32_t n_slots = atomic_load(&page->n_slots);
    for (uint32_t i = 0; i < n_slots; i++)
        if (atomic_load(&page->slots[i].tid) != 0 && atomic_load(&page->slots[i].parked) != generation)
            return;
    atomic_fetch_add(&page->arrivals, 1);
    SetEvent(view->handles[ARRIVAL]);
}

void release_thread(void)
{
    struct thread *thread = TlsGetValue(thread_index);
    if (thread == NULL)
        return;
    if (thread->slot != NULL) {
        atomic_store(&thread->slot->parked, 0);
        atomic_store(&thread->slot->tid, 0);
        notify_arrival(atomic_load(&page->generation));
    }
    TlsSetValue(thread_index, NULL);
    HeapFree(GetProcessHeap(), 0, thread);
}

/* A thread that waits while time runs looks at the clock again when that changes. It must not be taken for one that is
 * blocked in a function that is not replaced. */
void park(struct thread *thread, const struct clock_moment *moment, enum clock_wait kind)
{
    uint32_t generation = moment->is_frozen ? moment->generation : CLOCK_ALERTED;
    if (thread->slot == NULL)
        return;
    atomic_store(&thread->slot->kind, kind);
    atomic_store(&thread->slot->parked, generation);
    notify_arrival(generation);
}

/* The order matters to the controller's proof (control.c): the return is counted before the program goes on. */
void unpark(struct thread *thread)
{
    if (thread->slot == NULL || atomic_load(&thread->slot->parked) == 0)
        return;
    atomic_fetch_add(&thread->slot->n_returns, 1);
    atomic_store(&thread->slot->parked, 0);
}

void check_owner(int64_t real_ns)
{
    int64_t checked_ns = atomic_load(&page->checked_ns);
    int32_t owner = atomic_load(&page->owner);
    if (owner == 0 || real_ns - checked_ns < CHECK_MS * CLOCK_MS ||
        !atomic_compare_exchange_strong(&page->checked_ns, &checked_ns, real_ns))
        return;
    DWORD error = GetLastError();
    wchar_t name[NAME_CHARACTERS];
    page_name(name, page->key, L"-owner");
    HANDLE lives = OpenMutexW(SYNCHRONIZE, FALSE, name);
    if (lives != NULL) {
        CloseHandle(lives);
    } else if (GetLastError() == ERROR_FILE_NOT_FOUND && atomic_compare_exchange_strong(&page->owner, &owner, 0)) {
        if (atomic_load(&page->on_orphan) == CLOCK_ORPHAN_END)
            TerminateProcess(THIS_PROCESS, 1);
        if (atomic_load(&page->on_orphan) == CLOCK_ORPHAN_RUN)
            clock_publish(page, CLOCK_UNIT_SPEED, 0, CLOCK_FOREVER);
    }
    SetLastError(error);
}
