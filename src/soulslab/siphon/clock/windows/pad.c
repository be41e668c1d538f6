/* The gamepad: functions of XInput that report the state in the page.
 *
 * Games load one of several libraries of XInput, at their start or later, and find its functions by name or by number. In
 * all of these libraries they are replaced. While the page has no gamepad, the calls go to the library; then pads of the
 * machine are seen. With one, it is the only pad. Sources: Microsoft, "XInput Game Controller APIs"; the function without
 * a name, 100, is that of SDL (SDL_xinput.h).
 */
#include "game.h"

#define GUIDE 0x400 /* a bit of the buttons that only XInputGetStateEx reports */

/* Copy the current state; returns a number that differs if the state does. */
static DWORD read_pad(XINPUT_GAMEPAD *result)
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

static SMALL DWORD answer(int hook, DWORD index, DWORD_PTR two, DWORD_PTR three)
{
    if (atomic_load(&page->has_pad) == 0) {
        DWORD(WINAPI *call)(DWORD, DWORD_PTR, DWORD_PTR) = original_of_pad(hook);
        return call != NULL ? call(index, two, three) : ERROR_DEVICE_NOT_CONNECTED;
    }
    if (index != 0)
        return ERROR_DEVICE_NOT_CONNECTED;
    if (hook == HOOK_XInputGetCapabilities) {
        /* All buttons but Guide, and the bits that each axis can have. */
        *(XINPUT_CAPABILITIES *)three = (XINPUT_CAPABILITIES){.Type = XINPUT_DEVTYPE_GAMEPAD,
                                                              .SubType = XINPUT_DEVSUBTYPE_GAMEPAD,
                                                              .Gamepad = {0xf3ff, 255, 255, -1, -1, -1, -1}};
    } else if (hook != HOOK_XInputSetState) { /* there are no motors */
        XINPUT_STATE *state = (XINPUT_STATE *)two;
        state->dwPacketNumber = read_pad(&state->Gamepad);
        if (hook == HOOK_XInputGetState)
            state->Gamepad.wButtons &= (WORD)~GUIDE;
    }
    return ERROR_SUCCESS;
}

DWORD WINAPI our_pad_state(DWORD index, XINPUT_STATE *state)
{
    return answer(HOOK_XInputGetState, index, (DWORD_PTR)state, 0);
}

DWORD WINAPI our_pad_state_ex(DWORD index, XINPUT_STATE *state)
{
    return answer(HOOK_XInputGetStateEx, index, (DWORD_PTR)state, 0);
}

DWORD WINAPI our_pad_motors(DWORD index, XINPUT_VIBRATION *motors)
{
    return answer(HOOK_XInputSetState, index, (DWORD_PTR)motors, 0);
}

DWORD WINAPI our_pad_abilities(DWORD index, DWORD flags, XINPUT_CAPABILITIES *abilities)
{
    return answer(HOOK_XInputGetCapabilities, index, flags, (DWORD_PTR)abilities);
}
