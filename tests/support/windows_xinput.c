/* A library of XInput that belongs to a game: its pad always has the button A pressed. */
#include <windows.h>
#include <xinput.h>

__declspec(dllexport) DWORD WINAPI XInputGetState(DWORD index, XINPUT_STATE *state)
{
    if (index != 0)
        return ERROR_DEVICE_NOT_CONNECTED;
    *state = (XINPUT_STATE){.dwPacketNumber = 1, .Gamepad = {.wButtons = XINPUT_GAMEPAD_A}};
    return ERROR_SUCCESS;
}

__declspec(dllexport) DWORD WINAPI XInputGetCapabilities(DWORD index, DWORD flags, XINPUT_CAPABILITIES *abilities)
{
    (void)flags;
    *abilities = (XINPUT_CAPABILITIES){0};
    return index == 0 ? ERROR_SUCCESS : ERROR_DEVICE_NOT_CONNECTED;
}

/* A library that a game loads later, with imports of its own. */
__declspec(dllexport) ULONGLONG WINAPI tick_count_of_library(void)
{
    return GetTickCount64();
}
