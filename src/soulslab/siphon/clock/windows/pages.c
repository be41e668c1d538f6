/* Making a page: by a controller that starts a game, or by the library beside a game (beside.c). */
#include "views.h"

static void initialise(struct clock_page *page, uint64_t key, bool is_held)
{
    FILETIME now;
    GetSystemTimeAsFileTime(&now);
    int64_t units = (int64_t)((uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime) - 116444736000000000ll;
    page->key = key;
    page->base_ns[BASE_EPOCH] = units * 100;
    page->base_ns[BASE_COUNTER] = clock_real_ns();
    page->base_ns[BASE_BOOT] = (int64_t)GetTickCount64() * CLOCK_MS;
    struct clock_line *line = &page->lines[1];
    atomic_store(&line->real_ns, clock_real_ns());
    atomic_store(&line->limit_ns, CLOCK_FOREVER);
    atomic_store(&line->speed, is_held ? 0 : CLOCK_UNIT_SPEED);
    atomic_store(&page->started_ns, -1);
    atomic_store(&page->boundary, CLOCK_BOUNDARY_SLEEP);
    atomic_store(&page->spin_reads, UINT32_MAX);
    atomic_store(&page->generation, 2);
    page->layout = CLOCK_LAYOUT;
    page->magic = CLOCK_MAGIC;
}

HANDLE create_page(bool is_held, uint64_t *key)
{
    static _Atomic uint64_t n_pages;
    LARGE_INTEGER count;
    QueryPerformanceCounter(&count);
    *key = ((uint64_t)count.QuadPart + (atomic_fetch_add(&n_pages, 1) << 20)) * 0x9e3779b97f4a7c15ull;
    *key ^= (uint64_t)GetCurrentProcessId() << 32;
    wchar_t name[NAME_CHARACTERS];
    page_name(name, *key, L"");
    struct clock_page *page;
    HANDLE mapping = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, sizeof *page, name);
    if (mapping == NULL)
        return NULL;
    page = MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof *page);
    if (page == NULL) {
        DWORD code = GetLastError();
        CloseHandle(mapping);
        SetLastError(code);
        return NULL;
    }
    initialise(page, *key, is_held);
    UnmapViewOfFile(page);
    return mapping;
}
