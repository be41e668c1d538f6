"""Damaged files for readers: an error of the tree, 2 s of CPU time and 500 MB at most.

Each reader has a small whole file, of which it reads 200 damaged copies, in the long form 3,000. Bytes are changed at
random; where a checksum protects them, what the checksum covers is changed and signed again, as an attacker would.
"""

# ruff: noqa: S311  (seeds are what these are about)

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from soulslab.config.hdf5_files import Hdf5Reader
from soulslab.errors import SoulslabError
from soulslab.learn.archive import read_archive, write_archive
from support.input_costs import InputCosts
from support.long_form import IS_LONG

N = 3000 if IS_LONG else 200
ODD = [None, True, -1, 0, 2**31, 2**63, 1e308, -0.5, "", "x" * 300, "\0", "/dev/zero", [], {}, [[]] * 3]
PIECES = [b"", b"\0", b"\xff", b"[[", b"]]", b"{", b"}", b'"', b"=", b"a.a.", b"99999999999999999999", b"1e999", b"nan"]


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return bytes with some changed, removed, doubled or put in."""
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(6):
            case 0 if at < len(data):
                data[at] = rng.randrange(256)
            case 1 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 2:
                del data[at : at + rng.choice((1, 4, 64))]
            case 3:
                data[at:at] = data[at : at + rng.choice((8, 200))]
            case 4:
                data[at:at] = rng.choice(PIECES) * rng.choice((1, 1, 1, 20_000))
            case _:
                del data[rng.randrange(len(data) + 1) :]
    return bytes(data)


def changed(value: Any, rng: random.Random) -> Any:
    """Return JSON with something odd in one place."""
    if not isinstance(value, list | dict) or not value or rng.random() < 0.15:
        return rng.choice([*ODD, 3_000_000])
    key = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[key] = changed(copy[key], rng)
    return copy


def change_archive(path: Path, rng: random.Random) -> None:
    """Change the header or a tensor of an archive, and sign it again."""
    tensors, header = read_archive(path)
    name = rng.choice(list(tensors))
    match rng.randrange(4):
        case 0:
            del tensors[name]
        case 1:
            tensors[name] = rng.choice(
                [
                    np.full_like(tensors[name], np.nan if tensors[name].dtype.kind == "f" else 7),
                    tensors[name].ravel()[:1],
                    np.zeros((1, 2, 3)),
                    np.frombuffer(b"[" * 100_000, np.uint8),  # where JSON is expected
                ]
            )
        case _:
            header = changed(header, rng)
    write_archive(path, tensors, header if isinstance(header, dict) else {})


def count_refused(
    path: Path,
    read: Callable[[Path], Any],
    *,
    change: Callable[[Path, random.Random], None] | None = None,
    reader: Hdf5Reader | None = None,
) -> int:
    """Read damaged files; return how many were refused. The process of a reader of HDF5 files has the same limits."""
    whole, n_refused = path.read_bytes(), 0
    read(path)  # compiles and imports what it needs
    costs = InputCosts(reader)
    for seed in range(N):
        rng = random.Random(seed)
        if change is None:
            path.write_bytes(mutated(whole, rng))
        else:
            path.write_bytes(whole)
            change(path, rng)
        with costs.limited(f"seed {seed}"):
            try:
                read(path)
            except SoulslabError as error:
                n_refused += 1
                assert len(str(error)) < 30_000, seed
            except BaseException as error:
                error.add_note(f"seed {seed}")
                raise
    path.write_bytes(whole)
    return n_refused


def change_line(path: Path, rng: random.Random) -> None:
    """Change one line of JSON, or add an unknown field that is nested deeply."""
    lines = path.read_bytes().splitlines()
    at = rng.choice([at for at, line in enumerate(lines) if line])
    if rng.random() < 0.05:
        lines[at] = lines[at].removesuffix(b"}") + b',"x":' + b"[" * 100_000
    else:
        lines[at] = json.dumps(changed(json.loads(lines[at]), rng)).encode()
    path.write_bytes(b"\n".join(lines) + b"\n")
