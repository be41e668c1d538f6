"""Recorded fights: the states of a fight at the game's frame rate or below, and folders of them.

A recording is a folder with one ``fight_0001.npz`` for each fight. A file has one array for each field of `MOMENT`,
and ``header``, a JSON text (`_Header`). Nothing in it says how the boss works.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.arena.records import TICKS_PER_S
from soulslab.config.atomic_file import replace_file
from soulslab.config.input_files import Fail, parse_json
from soulslab.config.npz_file import npz_bytes, read_npz
from soulslab.errors import RecordingError

#: One moment of a fight. Positions in m, angles in rad with the facing (-sin, -cos), times in s since the animation
#: began. ``tick`` counts 1/60 s of game time from the start of the fight. ``phase`` is 0 if it was not read.
#: ``is_topped_up`` marks the first moment after the player's health was restored.
MOMENT: np.dtype[Any] = np.dtype(
    [
        ("tick", "i8"),
        *((name, "f8") for name in ("player_x", "player_y", "player_z", "player_angle", "player_hp", "player_sp")),
        ("player_animation", "i2"),
        ("player_time_s", "f8"),
        *((name, "f8") for name in ("boss_x", "boss_y", "boss_angle", "boss_hp")),
        ("boss_animation", "i2"),
        ("boss_time_s", "f8"),
        ("lock_on", "?"),
        ("phase", "i1"),
        ("is_topped_up", "?"),
    ]
)
#: Share of the player's health below which a recording may restore it, so that fights reach the second phase: one hit
#: must not kill.
TOP_UP_BELOW = 0.7
#: Player of a data set of fights in which the health was restored after each step that left less than this.
TOPPED_UP_PROBE = "probe, health restored"
FORMAT = 1
MAX_MOMENTS = 1 << 20
MAX_ARRAY_BYTES = MAX_MOMENTS * MOMENT.itemsize + (8 << 20)
_NAME = re.compile(r"fight_\d{4,}\.npz")
_Name = Annotated[str, Meta(max_length=64)]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The header of a file."""

    format: int
    player_max_hp: Annotated[float, Meta(gt=0, le=1_000_000)]
    player_animations: Annotated[tuple[_Name, ...], Meta(max_length=10_000)]
    boss_animations: Annotated[tuple[_Name, ...], Meta(max_length=10_000)]
    player: str = ""
    boss: str = ""


class RecordedFight(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """One recorded fight.

    Attributes:
        moments: (T,) `MOMENT`, with ascending ticks.
        player_animations: Names of the player's animations; the moments hold indices into them.
        boss_animations: Likewise for the boss; an animation of unknown name is ``#`` and its number.
        player_max_hp: Full health of the player.
        player: Who played, for reports.
        boss: Name of the boss, or of its file; empty if it was not recorded.
    """

    moments: NDArray[Any]
    player_animations: tuple[str, ...]
    boss_animations: tuple[str, ...]
    player_max_hp: float
    player: str = ""
    boss: str = ""

    @property
    def game_time_s(self) -> float:
        """Game time between the first and the last moment."""
        ticks = self.moments["tick"]
        return float(ticks[-1] - ticks[0]) / TICKS_PER_S

    @property
    def ticks_per_moment(self) -> int:
        """Median distance of two moments in ticks: 1 at the game's frame rate."""
        return max(int(np.median(np.diff(self.moments["tick"]))), 1) if len(self.moments) > 1 else 1


def last_number(folder: Path) -> int:
    """Return the greatest number of a fight in a folder; 0 if there is none, or no folder."""
    return max(map(_number, fight_files(folder)), default=0)


def save_fight(folder: Path, fight: RecordedFight) -> Path:
    """Write a fight as the next file of a folder, and return its path; an interrupted write leaves no file.

    Raises `RecordingError` if it cannot be written.
    """
    header = _Header(
        format=FORMAT,
        player_max_hp=fight.player_max_hp,
        player_animations=fight.player_animations,
        boss_animations=fight.boss_animations,
        player=fight.player,
        boss=fight.boss,
    )
    columns: dict[str, Any] = {name: fight.moments[name] for name in MOMENT.names or ()}
    data = npz_bytes({"header": np.array(msgspec.json.encode(header).decode()), **columns})
    path = folder / f"fight_{1 + last_number(folder):04d}.npz"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_file(path, data)
    except OSError as error:
        raise RecordingError(folder, f"cannot be written: {error.strerror or error}; choose another folder") from error
    return path


def fight_files(folder: Path) -> list[Path]:
    """Return the files of the fights in a folder, in the order in which they were recorded."""
    return sorted((path for path in folder.glob("fight_*.npz") if _NAME.fullmatch(path.name)), key=_number)


def _number(path: Path) -> int:
    return int(path.stem.partition("_")[2])


def read_fights(folder: Path) -> list[RecordedFight]:
    """Read all fights of a folder.

    Raises `RecordingError` if there are none, or a file is damaged or has another format.
    """
    fights = [read_fight(path) for path in fight_files(folder)]
    if not fights:
        raise RecordingError(folder, "holds no recorded fights (fight_0001.npz ...); record some")
    return fights


def read_fight(path: Path) -> RecordedFight:
    """Read and check one fight; the file is not trusted."""
    fail = partial(RecordingError, path)
    arrays = read_npz(path, fail, MAX_ARRAY_BYTES)
    header = parse_json(str(_array(arrays, "header", "U", (), fail)), _Header, fail)
    shape = (arrays["tick"].size if "tick" in arrays else 0,)
    kinds = {name: MOMENT[name].kind.replace("f", "fi") for name in MOMENT.names or ()}
    columns = {name: _array(arrays, name, kind, shape, fail) for name, kind in kinds.items()}
    moments = np.zeros(shape, MOMENT)
    for name, column in columns.items():
        moments[name] = column
    if header.format != FORMAT:
        raise fail(f"has format {header.format}; this soulslab reads format {FORMAT}")
    fight = RecordedFight(
        moments=moments,
        player_animations=header.player_animations,
        boss_animations=header.boss_animations,
        player_max_hp=header.player_max_hp,
        player=header.player,
        boss=header.boss,
    )
    for problem in _problems(fight):
        raise fail(problem)
    return fight


def _array(arrays: dict[str, Any], name: str, kinds: str, shape: tuple[int, ...], fail: Fail) -> Any:
    """Return an array of a file; refuse a file without it, or with another kind of values or length."""
    array = arrays.get(name)
    if array is None or array.dtype.kind not in kinds or array.shape != shape:
        found = f"{array.dtype} of shape {array.shape}" if array is not None else "missing"
        raise fail(f"is not a recorded fight: {name} is {found}")
    return array


def _problems(fight: RecordedFight) -> Iterator[str]:
    moments = fight.moments
    if len(moments) < 2:
        yield "has fewer than two moments"
        return
    if not (np.diff(moments["tick"]) > 0).all():
        yield "its ticks do not ascend"
    for name in MOMENT.names or ():
        if MOMENT[name].kind == "f" and not (np.abs(moments[name]) < 1e9).all():
            yield f"{name} has a value that is not a number of a fight"
    for who, names in (("player", fight.player_animations), ("boss", fight.boss_animations)):
        numbers = moments[f"{who}_animation"]
        if numbers.min() < 0 or numbers.max() >= len(names):
            yield f"{who}_animation has a number without a name"


def index_names(names: Sequence[str]) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """Return the index of each name, (T,), and the different names."""
    unique, indices = np.unique(np.asarray(names, dtype=np.str_), return_inverse=True)
    return indices.astype(np.int16), tuple(map(str, unique))
