"""Calls of the Windows API: types, error codes and their texts."""

from ctypes import wintypes

from soulslab.siphon.win32 import ERROR_INVALID_PARAMETER, error_code, explain, function


def test_a_failed_call_leaves_its_error_code():
    open_process = function("kernel32", "OpenProcess", wintypes.HANDLE, wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    assert not open_process(0x10, False, 0)
    code = error_code()
    assert code == ERROR_INVALID_PARAMETER
    assert explain(code).endswith("(error 87)")


def test_the_game_runs(game):
    assert game.poll() is None
