"""Deprecated module: use `soulslab.siphon.process.image`."""

import warnings
from typing import Any

from soulslab.siphon.process import image


def __getattr__(name: str) -> Any:
    if name not in image.__all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn(f"{__name__}.{name} is deprecated; use {image.__name__}.{name}", DeprecationWarning, stacklevel=2)
    return getattr(image, name)
