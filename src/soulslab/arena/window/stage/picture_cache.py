"""Disk cache of painted textures: a window opens a second earlier if it reads them instead of painting them."""

from __future__ import annotations

import functools
import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.kernel import cache_folder

P = ParamSpec("P")
Picture = NDArray[np.uint8]
_log = logging.getLogger(__name__)


def cached_picture(paint: Callable[P, Picture]) -> Callable[P, Picture]:
    """Cache the result of a painting function in memory, and in a file for later processes.

    The name of the file contains a digest of the arguments and of the painting module, so a change of either paints a
    new picture. A damaged or missing file is written again; if it cannot be written, each process paints.

    Args:
        paint: Function that returns a picture (H, W, 3) uint8 and depends only on its arguments.
    """
    source = Path(paint.__code__.co_filename)

    @functools.wraps(paint)
    def read_or_paint(*arguments: P.args, **named: P.kwargs) -> Picture:
        digest = hashlib.sha256(f"{np.__version__} {arguments} {named}".encode() + source.read_bytes())
        path = cache_folder() / "pictures" / f"{paint.__name__}-{digest.hexdigest()[:16]}.npy"
        try:
            with path.open("rb") as file:
                picture = np.lib.format.read_array(file, allow_pickle=False)
            if picture.dtype == np.uint8 and picture.ndim == 3:
                return _read_only(picture)
        except (OSError, ValueError) as error:
            _log.debug("%s has to be painted: %s", path, error)
        picture = paint(*arguments, **named)
        _keep(picture, path)
        return _read_only(picture)

    remembered: Any = functools.cache(read_or_paint)
    result: Callable[P, Picture] = remembered
    return result


def _keep(picture: Picture, path: Path) -> None:
    """Write a picture atomically, so that other processes read all of it or nothing."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            np.save(file, picture, allow_pickle=False)
        temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        _log.debug("%s cannot be written: %s", path, error)


def _read_only(picture: Picture) -> Picture:
    picture.setflags(write=False)
    return picture
