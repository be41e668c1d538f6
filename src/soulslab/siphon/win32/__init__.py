"""Functions of the Windows API by ctypes, and the texts of its errors.

The declarations of the functions are in the modules that use them; sources are the pages of Microsoft's "Windows API
index" with the names of the functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

#: ``WinDLL`` exists on Windows only; the modules that use this one are imported on Linux, too.
_load: Any = getattr(ctypes, "WinDLL", None)

#: Codes of winerror.h.
ERROR_ACCESS_DENIED, ERROR_INVALID_PARAMETER, ERROR_PARTIAL_COPY, ERROR_NOACCESS = 5, 87, 299, 998


@cache
def function(library: str, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """Return a function of a library (``kernel32``) with its types; `error_code` returns the error of its last call."""
    # An item is a new object, whose types do not change those of another declaration; an attribute is not.
    found = _library(library)[name]
    found.restype, found.argtypes = result, arguments
    declared: Callable[..., Any] = found
    return declared


def error_code() -> int:
    """Return the error code of the last call in this thread (``GetLastError``)."""
    code: int = ctypes.get_last_error()  # type: ignore[attr-defined,unused-ignore]
    return code


def explain(code: int) -> str:
    """Return the text of the system for an error code, with the code."""
    text: str = ctypes.FormatError(code)  # type: ignore[attr-defined,unused-ignore]
    return f"{text.strip().rstrip('.')} (error {code})"


@cache
def _library(name: str) -> Any:
    # A library object of our own: argument types that other packages declare do not change ours.
    return _load(name, use_last_error=True)
