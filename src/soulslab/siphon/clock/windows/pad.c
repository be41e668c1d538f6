/* The gamepad: functions of XInput that report the state in the page.
 *
 * Games load one of several libraries of XInput, at their start or later, and find its functions by name or by number. All
 * of them are replaced. While the page has no gamepad, the calls go to the library; then pads of the machine are seen.
 * With one, it is the only pad. Sources: Microsoft, "XInput Game Controller APIs"; the function without a name, 100, is
 * that of SDL (SDL_xinput.h).
 */
#include "game.h"

#include <xinput.h>

#define N_LIBRARIES 3
enum { GET_STATE, GET_STATE_EX, SET_STATE, CAPABILITIES, N_FUNCTIONS };

static void *found[N_FUNCTIONS][N_LIBRARIES];

/* Of any library; the game may have loaded several. */
static void *original(int function)
{
    for (int at = 0; at < N_LIBRARIES; at++)
        if (found[function][at] != NULL)
            return found[function][at];
    return NULL;
}

/* Call the library with up to 3 arguments. */
static SMALL DWORD pass_on(int function, DWORD index, DWORD_PTR two, DWORD_PTR three)
{
    DWORD(WINAPI *call)(DWORD, DWORD_PTR, DWORD_PTR) = original(function);
    return call != NULL ? call(index, two, three) : ERROR_DEVICE_NOT_CONNECTED;
}

static bool has_pad(void)
{
    return atomic_load(&page->has_pad) != 0;
}

/* Copy the current state; returns a number that differs if the state does. */
static SMALL DWORD read_pad(XINPUT_GAMEPAD *result)
{
    static SRWLOCK lock = SRWLOCK_INIT;
    static struct clock_pad_reader reader;
    struct clock_moment moment;
    clock_look(page, &moment);
    check_owner(moment.real_ns);
    AcquireSRWLockExclusive(&lock);
    while (clock_next_pad(page, &reader, moment.virtual_ns))
        ;
    bool is_orphan = atomic_load(&page->owner) == 0;
    *result = is_orphan ? (XINPUT_GAMEPAD){0} : *(XINPUT_GAMEPAD *)&reader.pad;
    DWORD number = 2 * reader.n_seen + is_orphan;
    ReleaseSRWLockExclusive(&lock);
    return number;
}

static DWORD WINAPI our_pad_state_ex(DWORD index, XINPUT_STATE *state)
{
    if (!has_pad())
        return pass_on(GET_STATE_EX, index, (DWORD_PTR)state, 0);
    if (index != 0)
        return ERROR_DEVICE_NOT_CONNECTED;
    state->dwPacketNumber = read_pad(&state->Gamepad);
    return ERROR_SUCCESS;
}

static DWORD WINAPI our_pad_state(DWORD index, XINPUT_STATE *state)
{
    if (!has_pad())
        return pass_on(GET_STATE, index, (DWORD_PTR)state, 0);
    DWORD result = our_pad_state_ex(index, state);
    if (result == ERROR_SUCCESS)
        state->Gamepad.wButtons &= (WORD)~0x400; /* Guide */
    return result;
}

/* Motors: there are none. */
static DWORD WINAPI our_pad_motors(DWORD index, XINPUT_VIBRATION *motors)
{
    if (!has_pad())
        return pass_on(SET_STATE, index, (DWORD_PTR)motors, 0);
    return index == 0 ? ERROR_SUCCESS : ERROR_DEVICE_NOT_CONNECTED;
}

static DWORD WINAPI our_pad_abilities(DWORD index, DWORD flags, XINPUT_CAPABILITIES *abilities)
{
    if (!has_pad())
        return pass_on(CAPABILITIES, index, flags, (DWORD_PTR)abilities);
    if (index != 0)
        return ERROR_DEVICE_NOT_CONNECTED;
    /* All buttons but Guide, and the bits that each axis can have. */
    *abilities = (XINPUT_CAPABILITIES){
        .Type = XINPUT_DEVTYPE_GAMEPAD, .SubType = XINPUT_DEVSUBTYPE_GAMEPAD, .Gamepad = {0xf3ff, 255, 255, -1, -1, -1, -1}};
    return ERROR_SUCCESS;
}

static const struct hook functions[N_FUNCTIONS] = {
    [GET_STATE] = {"XInputGetState", our_pad_state},
    [GET_STATE_EX] = {(const char *)100, our_pad_state_ex},
    [SET_STATE] = {"XInputSetState", our_pad_motors},
    [CAPABILITIES] = {"XInputGetCapabilities", our_pad_abilities},
};

void find_pad_functions(void)
{
    static const char *const libraries[N_LIBRARIES] = {"xinput1_4.dll", "xinput1_3.dll", "xinput9_1_0.dll"};
    for (int at = 0; at < N_LIBRARIES; at++) {
        HMODULE module = GetModuleHandleA(libraries[at]);
        for (int i = 0; i < N_FUNCTIONS && module != NULL; i++)
            found[i][at] = (void *)GetProcAddress(module, functions[i].name);
    }
}

void *replacement_of_pad(void *function)
{
    for (int i = 0; i < N_FUNCTIONS; i++)
        for (int at = 0; at < N_LIBRARIES; at++)
            if (found[i][at] == function)
                return functions[i].replacement;
    return NULL;
}
