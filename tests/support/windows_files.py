"""The refusal of Windows to replace a file that another program reads."""

import errno
from pathlib import Path


def refuse_to_replace(monkeypatch, n_times, readers_s):
    """Refuse the first calls of `Path.replace`, and wait at most this long (s) for readers; return the refusals left.

    Linux does not refuse, so this stands in for Windows.
    """
    refusals = [PermissionError(errno.EACCES, "is used by another program")] * n_times
    replace = Path.replace

    def refuse_first(source, target):
        if refusals:
            raise refusals.pop()
        return replace(source, target)

    monkeypatch.setattr(Path, "replace", refuse_first)
    monkeypatch.setattr("soulslab.config.atomic_file._READERS_S", readers_s)
    return refusals
