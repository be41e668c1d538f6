/* Loading into the game: mapping the page and replacing import slots.
 *
 * No code is changed. A slot is recognised by its content, the address of a function of the system, so it does not
 * matter under which name or through which library it was imported.
 */
#include "game.h"

#include <psapi.h>

/* Libraries that contain one of our functions; the game may import it from any of them. */
enum { N_SYSTEM = 4, N_PLACES = N_SYSTEM + N_PAD_LIBRARIES };
static const char places[N_PLACES][16] = {"kernel32.dll",  "kernelbase.dll", "user32.dll",      "winmm.dll",
                                          "xinput1_4.dll", "xinput1_3.dll",  "xinput9_1_0.dll"};

#define NAME(name, replacement) #name "\0"
static const char hook_names[] = HOOKS(NAME);
#define REPLACEMENT(name, replacement) (void *)replacement,
static void *const replacements[N_HOOKS] = {HOOKS(REPLACEMENT)(void *) our_pad_state_ex};

typedef struct {
    USHORT length, maximum_length;
    wchar_t *text;
} unicode_string;

struct loaded { /* LDR_DLL_LOADED_NOTIFICATION_DATA */
    ULONG flags;
    const unicode_string *path, *name;
    void *base;
    ULONG size;
};

struct clock_page *page;
struct clock_view *view;
struct real real;

static HMODULE own_module;
static void *originals[N_HOOKS][N_PLACES];

/* In the order of struct real. */
static const char real_names[] =
    "MsgWaitForMultipleObjectsEx\0PeekMessageA\0PeekMessageW\0GetMessageA\0GetMessageW\0PostMessageW\0SetTimer\0KillTimer\0"
    "GetWindowThreadProcessId\0WaitOnAddress\0WakeByAddressSingle\0WakeByAddressAll\0";
enum { N_REAL = sizeof(struct real) / sizeof(void *) };

static SMALL const char *after(const char *name)
{
    while (*name++ != 0)
        ;
    return name;
}

/* Libraries of XInput may be unloaded, so all functions are searched for again. */
static void find_originals(void)
{
    void **functions = (void **)&real;
    for (int at = 0; at < N_PLACES; at++) {
        HMODULE module = GetModuleHandleA(places[at]);
        const char *name = hook_names;
        for (int i = 0; i < N_HOOKS; i++, name = after(name)) {
            const char *wanted = i == HOOK_XInputGetStateEx ? PAD_STATE_EX : name;
            bool has = module != NULL && (i < HOOK_XInputGetStateEx || at >= N_SYSTEM);
            originals[i][at] = has ? (void *)GetProcAddress(module, wanted) : NULL;
        }
        name = real_names;
        for (int i = 0; i < N_REAL && module != NULL; i++, name = after(name))
            if (functions[i] == NULL)
                functions[i] = (void *)GetProcAddress(module, name);
    }
}

void *original_of_pad(int hook)
{
    for (int at = N_SYSTEM; at < N_PLACES; at++)
        if (originals[hook][at] != NULL)
            return originals[hook][at];
    return NULL;
}

static void *replacement_of(void *function)
{
    for (int i = 0; i < N_HOOKS && function != NULL; i++)
        for (int at = 0; at < N_PLACES; at++)
            if (originals[i][at] == function)
                return replacements[i];
    return NULL;
}

FARPROC WINAPI our_proc_address(HMODULE module, const char *name)
{
    FARPROC found = GetProcAddress(module, name);
    DWORD error = GetLastError();
    void *replacement = replacement_of((void *)found);
    SetLastError(error);
    return replacement != NULL ? (FARPROC)replacement : found;
}

static void patch_slots(void **slot)
{
    for (; *slot != NULL; slot++) {
        void *replacement = replacement_of(*slot);
        DWORD access;
        if (replacement == NULL || !VirtualProtect(slot, sizeof *slot, PAGE_READWRITE, &access))
            continue;
        *slot = replacement;
        VirtualProtect(slot, sizeof *slot, access, &access);
    }
}

static void patch_module(char *base)
{
    const IMAGE_NT_HEADERS *headers = (void *)(base + ((IMAGE_DOS_HEADER *)base)->e_lfanew);
    const IMAGE_DATA_DIRECTORY *directory = &headers->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
    if (directory->VirtualAddress == 0)
        return;
    const IMAGE_IMPORT_DESCRIPTOR *import = (void *)(base + directory->VirtualAddress);
    for (; import->FirstThunk != 0; import++)
        patch_slots((void **)(base + import->FirstThunk));
}

static bool starts_with(const wchar_t *text, int n, const wchar_t *start)
{
    int n_start = 0;
    while (start[n_start] != 0)
        n_start++;
    return n >= n_start && CompareStringOrdinal(text, n_start, start, n_start, TRUE) == CSTR_EQUAL;
}

/* Libraries of the system call each other with real time in mind. Those of C and C++ work for the game. */
static bool belongs_to_game(const wchar_t *path, int n)
{
    static const wchar_t runtimes[][10] = {L"msvc", L"ucrt", L"vcruntime", L"concrt"};
    wchar_t folder[MAX_PATH];
    UINT n_folder = GetSystemWindowsDirectoryW(folder, MAX_PATH);
    if (!starts_with(path, n, folder) || path[n_folder] != L'\\')
        return true;
    int at = n;
    while (at > 0 && path[at - 1] != L'\\')
        at--;
    for (size_t i = 0; i < sizeof runtimes / sizeof *runtimes; i++)
        if (starts_with(path + at, n - at, runtimes[i]))
            return true;
    return false;
}

static void patch_if_game(HMODULE module, const wchar_t *path, int n)
{
    if (module != own_module && belongs_to_game(path, n))
        patch_module((char *)module);
}

/* Called before the first code of the library runs. */
static void CALLBACK on_module(ULONG reason, const struct loaded *loaded, void *context)
{
    (void)context;
    if (reason != 1) /* LDR_DLL_NOTIFICATION_REASON_LOADED */
        return;
    find_originals();
    patch_if_game(loaded->base, loaded->path->text, loaded->path->length / (int)sizeof(wchar_t));
}

static void patch_all(void)
{
    static HMODULE modules[1024];
    static wchar_t path[MAX_PATH];
    DWORD n_bytes = 0;
    find_originals();
    if (!K32EnumProcessModules(THIS_PROCESS, modules, sizeof modules, &n_bytes))
        return;
    for (DWORD i = 0; i < n_bytes / sizeof *modules && i < sizeof modules / sizeof *modules; i++)
        patch_if_game(modules[i], path, (int)GetModuleFileNameW(modules[i], path, MAX_PATH));
}

/* For controllers that know only the process. The mapping exists as long as the game. */
static void publish_key(void)
{
    wchar_t name[NAME_CHARACTERS];
    page_name(name, GetCurrentProcessId(), OF_PROCESS);
    HANDLE mapping = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, sizeof page->key, name);
    uint64_t *key = mapping == NULL ? NULL : MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof *key);
    if (key != NULL) {
        *key = page->key;
        UnmapViewOfFile(key);
    }
}

static void attach(const wchar_t *name)
{
    HANDLE mapping = OpenFileMappingW(FILE_MAP_ALL_ACCESS, FALSE, name);
    view = mapping == NULL ? NULL : map_view(mapping);
    if (view == NULL)
        return;
    page = view->page;
    allocate_thread_index();
    HMODULE pinned;
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, (const wchar_t *)own_module,
                       &pinned);
    LONG(NTAPI *notify)(ULONG, void *, void *, void **) =
        (void *)GetProcAddress(GetModuleHandleA("ntdll.dll"), "LdrRegisterDllNotification");
    void *cookie;
    patch_all();
    if (notify != NULL)
        notify(0, on_module, NULL, &cookie);
    publish_key();
    struct clock_moment moment;
    clock_look(page, &moment);
    int64_t never = -1;
    atomic_compare_exchange_strong(&page->started_ns, &never, moment.virtual_ns);
    for (int i = 0; i < CLOCK_N_PROCESSES; i++) {
        int32_t none = 0;
        if (atomic_compare_exchange_strong(&page->processes[i], &none, (int32_t)GetCurrentProcessId()))
            break;
    }
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)reserved;
    wchar_t name[NAME_CHARACTERS];
    own_module = module;
    if (reason == DLL_PROCESS_ATTACH) {
        DWORD n = GetEnvironmentVariableW(CLOCK_VARIABLE, name, NAME_CHARACTERS);
        if (n > 0 && n < NAME_CHARACTERS)
            attach(name);
    }
    if (reason == DLL_THREAD_DETACH && page != NULL)
        release_thread();
    return TRUE;
}
