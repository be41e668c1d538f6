"""Deprecated module: use `soulslab.compat.eldengym`."""

import warnings
from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    compat = import_module("soulslab.compat.eldengym")
    if name not in compat.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{__name__}.{name} is deprecated; use {compat.__name__}.{name}", DeprecationWarning, stacklevel=2)
    return getattr(compat, name)
