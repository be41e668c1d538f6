"""The user of a client on this machine, on Windows: the owner of the process with the other end of a connection.

Sources: Microsoft, "GetExtendedTcpTable", "MIB_TCPROW_OWNER_PID", "MIB_TCP6ROW_OWNER_PID", "GetTokenInformation".
"""

from __future__ import annotations

import ctypes
import ipaddress
import socket
from ctypes import wintypes

from soulslab.siphon.win32 import error_code, explain, function

NO_ERROR, ERROR_INSUFFICIENT_BUFFER = 0, 122
#: Of TCP_TABLE_CLASS and MIB_TCP_STATE.
TCP_TABLE_OWNER_PID_CONNECTIONS, ESTABLISHED = 4, 5
PROCESS_QUERY_LIMITED_INFORMATION, TOKEN_QUERY, TOKEN_USER = 0x1000, 0x0008, 1
#: The table may grow between the query of its size and its query.
_N_TRIES = 5


class _Row(ctypes.Structure):
    """MIB_TCPROW_OWNER_PID; ports and addresses are in network byte order."""

    _fields_ = (
        ("state", wintypes.DWORD),
        ("address", ctypes.c_ubyte * 4),
        ("port", ctypes.c_ubyte * 4),
        ("other_address", ctypes.c_ubyte * 4),
        ("other_port", ctypes.c_ubyte * 4),
        ("pid", wintypes.DWORD),
    )


class _Row6(ctypes.Structure):
    """MIB_TCP6ROW_OWNER_PID."""

    _fields_ = (
        ("address", ctypes.c_ubyte * 16),
        ("scope", wintypes.DWORD),
        ("port", ctypes.c_ubyte * 4),
        ("other_address", ctypes.c_ubyte * 16),
        ("other_scope", wintypes.DWORD),
        ("other_port", ctypes.c_ubyte * 4),
        ("state", wintypes.DWORD),
        ("pid", wintypes.DWORD),
    )


def user_of_client(host: str, port: int, server_port: int) -> str | None:
    """Return the security identifier of the user whose process has the connection from a loopback address.

    None if it is closed, or its process cannot be examined. Raises `OSError` if the system does not answer.
    """
    pid = owner_of_connection(host, port, server_port)
    return user_of(pid) if pid else None


def owner_of_connection(host: str, port: int, server_port: int) -> int | None:
    """Return the process that has the connection from a loopback address; None if it is closed.

    0 if the system does not say it, as Wine 8. Raises `OSError` if the system does not answer.
    """
    family, row_type = (socket.AF_INET6, _Row6) if ":" in host else (socket.AF_INET, _Row)
    data = _table(family)
    count = wintypes.DWORD.from_buffer_copy(data).value
    rows = (row_type * count).from_buffer_copy(data, ctypes.sizeof(wintypes.DWORD))
    address = ipaddress.ip_address(host).packed
    for row in rows:
        is_sought = (bytes(row.address), _port(row.port), _port(row.other_port)) == (address, port, server_port)
        if is_sought and row.state == ESTABLISHED:
            return int(row.pid)
    return None


def own_user() -> str:
    """Return the security identifier of the user of this process. Raises `OSError`."""
    return _user_of_handle(function("kernel32", "GetCurrentProcess", wintypes.HANDLE)())


def _port(data: ctypes.Array[ctypes.c_ubyte]) -> int:
    return int.from_bytes(bytes(data[:2]), "big")


def _table(family: socket.AddressFamily) -> bytes:
    """Return the established connections of this machine: a count and rows."""
    query = function(
        "iphlpapi",
        "GetExtendedTcpTable",
        wintypes.DWORD,
        *(ctypes.c_void_p, ctypes.POINTER(wintypes.DWORD), wintypes.BOOL, wintypes.ULONG, ctypes.c_int, wintypes.ULONG),
    )
    size = wintypes.DWORD(0)
    code = query(None, ctypes.byref(size), False, family, TCP_TABLE_OWNER_PID_CONNECTIONS, 0)
    for _ in range(_N_TRIES):
        if code != ERROR_INSUFFICIENT_BUFFER:
            break
        buffer = ctypes.create_string_buffer(size.value)
        code = query(buffer, ctypes.byref(size), False, family, TCP_TABLE_OWNER_PID_CONNECTIONS, 0)
        if code == NO_ERROR:
            return buffer.raw
    raise OSError(f"the connections of this machine cannot be listed: {explain(code)}")


def user_of(pid: int) -> str | None:
    """Return the user of a process; None if it has ended, or belongs to a user who must not be examined."""
    types = (wintypes.DWORD, wintypes.BOOL, wintypes.DWORD)
    handle = function("kernel32", "OpenProcess", wintypes.HANDLE, *types)(PROCESS_QUERY_LIMITED_INFORMATION, False, pid)
    if not handle:
        return None
    try:
        return _user_of_handle(handle)
    finally:
        _close(handle)


def _user_of_handle(process: int) -> str:
    token = wintypes.HANDLE()
    types = (wintypes.HANDLE, wintypes.DWORD, ctypes.POINTER(wintypes.HANDLE))
    if not function("advapi32", "OpenProcessToken", wintypes.BOOL, *types)(process, TOKEN_QUERY, ctypes.byref(token)):
        raise _error("the user of a process cannot be read")
    try:
        query = function(
            "advapi32",
            "GetTokenInformation",
            wintypes.BOOL,
            *(wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD, ctypes.POINTER(wintypes.DWORD)),
        )
        buffer, size = ctypes.create_string_buffer(256), wintypes.DWORD()
        if not query(token, TOKEN_USER, buffer, len(buffer), ctypes.byref(size)):
            raise _error("the user of a process cannot be read")
        # TOKEN_USER begins with the address of the identifier.
        identifier, text = ctypes.c_void_p.from_buffer(buffer), wintypes.LPWSTR()
        pointer = ctypes.POINTER(wintypes.LPWSTR)
        convert = function("advapi32", "ConvertSidToStringSidW", wintypes.BOOL, ctypes.c_void_p, pointer)
        if not convert(identifier, ctypes.byref(text)):
            raise _error("the identifier of a user cannot be read")
        try:
            return str(text.value)
        finally:
            function("kernel32", "LocalFree", ctypes.c_void_p, ctypes.c_void_p)(ctypes.cast(text, ctypes.c_void_p))
    finally:
        _close(token)


def _error(problem: str) -> OSError:
    return OSError(f"{problem}: {explain(error_code())}")


def _close(handle: int | wintypes.HANDLE) -> None:
    function("kernel32", "CloseHandle", wintypes.BOOL, wintypes.HANDLE)(handle)
