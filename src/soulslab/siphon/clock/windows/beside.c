/* The library beside the game: it lies in the folder of the game under the name of the game's XInput library, so Windows
 * loads it with the game, however the game is started.
 *
 * It forwards all functions to the library whose name it has: to the one that was in the folder before, or to that of the
 * system. It makes a clock page that no session controls yet, and loads the clock library from the same folder. A session
 * that attaches finds the page by the process id, as that of a game that it has started.
 */
#include "views.h"

#define MAX_CHARACTERS 4096
#define ORIGINAL_SUFFIX L".soulslab-original"
#define CLOCK_LIBRARY L"soulslab_clock.dll"

/* Names of functions of XInput, and numbers of those without a name. beside.def has the numbers of all. */
#define FUNCTIONS(FUNCTION)                                                             \
    FUNCTION(XInputGetState, "XInputGetState")                                          \
    FUNCTION(XInputSetState, "XInputSetState")                                          \
    FUNCTION(XInputGetCapabilities, "XInputGetCapabilities")                            \
    FUNCTION(XInputEnable, "XInputEnable")                                              \
    FUNCTION(XInputGetDSoundAudioDeviceGuids, "XInputGetDSoundAudioDeviceGuids")        \
    FUNCTION(XInputGetBatteryInformation, "XInputGetBatteryInformation")                \
    FUNCTION(XInputGetKeystroke, "XInputGetKeystroke")                                  \
    FUNCTION(XInputGetAudioDeviceIds, "XInputGetAudioDeviceIds")                        \
    FUNCTION(function_100, (const char *)100)                                           \
    FUNCTION(function_101, (const char *)101)                                           \
    FUNCTION(function_102, (const char *)102)                                           \
    FUNCTION(function_103, (const char *)103)                                           \
    FUNCTION(function_104, (const char *)104)                                           \
    FUNCTION(function_108, (const char *)108)

#define NUMBER(function, name) NUMBER_##function,
enum { FUNCTIONS(NUMBER) N_FUNCTIONS };
#define NAME(function, name) name,
static const char *const names[N_FUNCTIONS] = {FUNCTIONS(NAME)};

/* No function of XInput has more arguments, and reading those that a caller has not passed is harmless. */
typedef DWORD(WINAPI *forwarded)(DWORD_PTR, DWORD_PTR, DWORD_PTR, DWORD_PTR, DWORD_PTR);
static forwarded functions[N_FUNCTIONS];

#define FORWARD(function, name)                                                                              \
    __declspec(dllexport) DWORD WINAPI function(DWORD_PTR a, DWORD_PTR b, DWORD_PTR c, DWORD_PTR d, DWORD_PTR e) \
    {                                                                                                        \
        forwarded call = functions[NUMBER_##function];                                                       \
        return call != NULL ? call(a, b, c, d, e) : ERROR_DEVICE_NOT_CONNECTED;                              \
    }
FUNCTIONS(FORWARD)

static wchar_t own_path[MAX_CHARACTERS], path[MAX_CHARACTERS];

/* Set `path` to two texts; the first one ends before `end`, or at its end if that is NULL. */
static void set_path(const wchar_t *first, const wchar_t *end, const wchar_t *second)
{
    wchar_t *at = path, *const limit = path + MAX_CHARACTERS - 1;
    while (*first != 0 && first != end && at < limit)
        *at++ = *first++;
    while (*second != 0 && at < limit)
        *at++ = *second++;
    *at = 0;
}

static void forward_functions(const wchar_t *name)
{
    static wchar_t folder[MAX_PATH];
    set_path(own_path, NULL, ORIGINAL_SUFFIX);
    HMODULE library = LoadLibraryW(path);
    if (library == NULL && GetSystemDirectoryW(folder, MAX_PATH) > 0) {
        set_path(folder, NULL, name - 1); /* with the separator */
        library = LoadLibraryW(path);
    }
    for (int i = 0; i < N_FUNCTIONS && library != NULL; i++)
        functions[i] = (forwarded)(void *)GetProcAddress(library, names[i]);
}

static void load_clock(const wchar_t *name)
{
    uint64_t key;
    wchar_t variable[NAME_CHARACTERS];
    /* A session that starts the game sets it, and loads the library itself. */
    if (GetEnvironmentVariableW(CLOCK_VARIABLE, variable, NAME_CHARACTERS) > 0)
        return;
    HANDLE mapping = create_page(false, &key); /* open as long as the game runs, so that the page keeps its name */
    if (mapping == NULL)
        return;
    page_name(variable, key, L"");
    SetEnvironmentVariableW(CLOCK_VARIABLE, variable);
    set_path(own_path, name, CLOCK_LIBRARY);
    if (LoadLibraryW(path) == NULL)
        CloseHandle(mapping);
    SetEnvironmentVariableW(CLOCK_VARIABLE, NULL); /* it is not for programs that the game starts */
}

BOOL WINAPI DllMain(HINSTANCE module, DWORD reason, void *reserved)
{
    (void)reserved;
    if (reason != DLL_PROCESS_ATTACH)
        return TRUE;
    DisableThreadLibraryCalls(module);
    wchar_t *name = own_path + GetModuleFileNameW(module, own_path, MAX_CHARACTERS);
    while (name > own_path && name[-1] != L'\\')
        name--;
    if (name == own_path)
        return TRUE;
    forward_functions(name); /* first: the clock library replaces GetProcAddress in libraries beside the game */
    load_clock(name);
    return TRUE;
}
