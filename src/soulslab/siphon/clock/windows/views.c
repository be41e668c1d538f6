#include "views.h"

#define N_VIEWS 256

static struct clock_view views[N_VIEWS];

int64_t counter_hz(void)
{
    static int64_t known_hz;
    if (known_hz == 0) {
        LARGE_INTEGER hz;
        QueryPerformanceFrequency(&hz);
        known_hz = hz.QuadPart;
    }
    return known_hz;
}

int64_t scale(int64_t count, int64_t multiplier, int64_t divisor)
{
    return count / divisor * multiplier + count % divisor * multiplier / divisor;
}

int64_t real_time_until_ns(const struct clock_moment *moment, int64_t until_ns)
{
    if (moment->is_frozen || moment->speed <= 0)
        return CLOCK_FOREVER;
    if (until_ns > moment->limit_ns)
        until_ns = moment->limit_ns;
    int64_t left_ns = until_ns - moment->virtual_ns;
    if (left_ns <= 0)
        return 0;
    /* In double precision: an error of a nanosecond in days does not matter. */
    double real_ns = (double)left_ns * ((double)CLOCK_UNIT_SPEED / (double)moment->speed);
    return real_ns < 1e18 ? (int64_t)real_ns + 1 : CLOCK_FOREVER;
}

/* The import slots of this library are not patched, so this is the real counter. */
SMALL int64_t clock_real_ns(void)
{
    LARGE_INTEGER count;
    QueryPerformanceCounter(&count);
    return scale(count.QuadPart, CLOCK_SECOND, counter_hz());
}

static wchar_t *add_text(wchar_t *at, const wchar_t *text)
{
    while ((*at = *text++) != 0)
        at++;
    return at;
}

static wchar_t *add_number(wchar_t *at, uint64_t number)
{
    for (int shift = 60; shift >= 0; shift -= 4)
        *at++ = L"0123456789abcdef"[(number >> shift) & 15];
    *at = 0;
    return at;
}

SMALL void page_name(wchar_t *name, uint64_t key, const wchar_t *suffix)
{
    add_text(add_number(add_text(name, L"Local\\soulslab-clock-"), key), suffix);
}

void clock_wake(struct clock_page *page, uint32_t generation)
{
    struct clock_view *view = view_of(page);
    ResetEvent(end_of(view, generation + 2));
    SetEvent(end_of(view, generation));
}

struct clock_view *view_of(struct clock_page *page)
{
    struct clock_view *view = views;
    while (atomic_load_explicit(&view->page, memory_order_relaxed) != page)
        view++;
    return view;
}

static struct clock_view *claim_view(struct clock_page *page)
{
    for (int i = 0; i < N_VIEWS; i++) {
        struct clock_page *none = NULL;
        if (atomic_compare_exchange_strong(&views[i].page, &none, page))
            return &views[i];
    }
    SetLastError(ERROR_TOO_MANY_OPEN_FILES);
    return NULL;
}

struct clock_view *map_view(HANDLE mapping)
{
    struct clock_page *page = MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof *page);
    if (page == NULL)
        return NULL;
    if (page->magic != CLOCK_MAGIC || page->layout != CLOCK_LAYOUT) {
        UnmapViewOfFile(page);
        SetLastError(ERROR_REVISION_MISMATCH);
        return NULL;
    }
    struct clock_view *view = claim_view(page);
    if (view == NULL) {
        UnmapViewOfFile(page);
        return NULL;
    }
    wchar_t name[NAME_CHARACTERS], suffix[] = L"-0";
    for (int i = END_0; i <= ARRIVAL; i++) {
        suffix[1] = (wchar_t)(L'0' + i);
        page_name(name, page->key, suffix);
        view->handles[i] = CreateEventW(NULL, i != ARRIVAL, FALSE, name);
        if (view->handles[i] == NULL) {
            unmap_view(view);
            SetLastError(ERROR_NO_SYSTEM_RESOURCES);
            return NULL;
        }
    }
    return view;
}

void unmap_view(struct clock_view *view)
{
    for (int i = 0; i < N_HANDLES; i++) {
        if (view->handles[i] != NULL)
            CloseHandle(view->handles[i]);
        view->handles[i] = NULL;
    }
    UnmapViewOfFile(view->page);
    atomic_store(&view->page, NULL);
}
