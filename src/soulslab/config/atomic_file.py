"""Files whose contents are replaced as a whole."""

from __future__ import annotations

import os
import time
from functools import partial
from pathlib import Path

#: Time to wait for other programs that read a file, such as virus scanners; only Windows refuses to replace it then.
_READERS_S = 5.0 if os.name == "nt" else 0.0


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Write a file so that it holds either the old or the new contents, also after a crash.

    Args:
        path: The file, in a folder that exists.
        data: Its contents.
        mode: Its permissions, which it has before other users can read it. None for those of a new file.

    Raises:
        OSError: It cannot be written. It then holds the old contents.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    opener = partial(os.open, mode=0o666 if mode is None else 0o600)
    try:
        temporary.unlink(missing_ok=True)
        with open(temporary, "xb", opener=opener) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        rename_file(temporary, path)
    except BaseException:  # also remove the temporary file after KeyboardInterrupt
        temporary.unlink(missing_ok=True)
        raise


def rename_file(source: Path, target: Path) -> None:
    """Rename a file to a name that another file may have, which other programs may read.

    On Windows, it waits up to 5 s for these programs. Raises OSError if the file cannot be renamed.
    """
    end_s = time.monotonic() + _READERS_S
    while True:
        try:
            source.replace(target)
            break
        except PermissionError:
            if time.monotonic() >= end_s:
                raise
            time.sleep(0.02)
