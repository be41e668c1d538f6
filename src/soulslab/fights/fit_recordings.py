"""Recordings that a boss can be fitted to, and what a fit writes.

Three kinds of recordings are read: folders of ``soulslab boss record`` (60 moments a second), recordings of
``soulslab siphon record`` (the rate of the recording), and data sets of duels (one moment per step), which have the
state of the duel beside each observation.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.binding import Binding
from soulslab.arena.boss_catalog import generated_seeds
from soulslab.arena.fitting.fit import Fit
from soulslab.arena.fitting.recorded_fight import (
    MOMENT,
    TOP_UP_BELOW,
    TOPPED_UP_PROBE,
    RecordedFight,
    fight_files,
    index_names,
    read_fights,
)
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DECISION_S, TICKS_PER_S
from soulslab.arena.uncertainty import uncertainty_path
from soulslab.arena.vocabulary import BOSS_ANIMATIONS
from soulslab.config.atomic_file import replace_file
from soulslab.config.hdf5_files import Hdf5Node, Hdf5Reader
from soulslab.config.writing import dump_settings
from soulslab.envs.duels import decision_s
from soulslab.errors import BossFileError, DemonstrationError, RecordingError
from soulslab.games import profile_path
from soulslab.learn.demonstrations.data_set_metadata import DATA_NAME, METADATA_NAME, describe
from soulslab.siphon.profile import Profile, load_profile
from soulslab.siphon.recording.reading import Recording, read_recording

_log = logging.getLogger(__name__)

#: Quantities that a recording of a game needs, and those that are used if they are in it.
NEEDED: Final = (
    *(f"player.{name}" for name in ("hp", "max_hp", "position", "angle", "animation", "animation_time")),
    *(f"boss.{name}" for name in ("hp", "position", "angle", "animation", "animation_time")),
)
OPTIONAL: Final = ("player.sp", "lock_on", "phase")
#: Longest fight of a data set.
MAX_TICKS: Final = 24 * 3600 * TICKS_PER_S

#: A fight ends where the boss's health rises by this share, or no moment was recorded for so long.
HEALED_SHARE: Final = 0.2
GAP_TICKS: Final = TICKS_PER_S
#: A shorter part of a recording is not a fight.
SHORTEST_TICKS: Final = 2 * TICKS_PER_S
#: Name of the boss's animation that is not in the vocabulary of a duel: the change of phase.
_UNNAMED: Final = "Attack1500"


def read_recorded_fights(paths: Sequence[Path], profile: Path | None = None) -> list[RecordedFight]:
    """Read recordings of any kind.

    Args:
        paths: Folders or files.
        profile: Name of the game or path of the profile of a recording of ``soulslab siphon record``.

    Raises:
        RecordingError: A recording cannot be read, or lacks a quantity of a fight.
        DemonstrationError: A data set cannot be read, or does not have the fields of a duel.
    """
    for path in paths:  # before any is read
        if not path.exists():
            problem = "does not exist; record fights with soulslab boss record, fights record or siphon record"
            raise RecordingError(path, problem)
    fights: list[RecordedFight] = []
    for path in paths:
        if path.is_dir() and fight_files(path):
            fights += read_fights(path)
        elif path.is_dir() and any(path.rglob(METADATA_NAME)):
            fights += _of_data_set(path)
        elif path.is_file():
            if profile is None:
                raise RecordingError(path, "is a recording of a game; name the game's profile with --profile")
            fights += _of_recording(read_recording(path, with_frames=False), load_profile(profile_path(profile)))
        else:
            problem = "is not a recording: neither a folder of fights, nor a data set, nor a file of siphon record"
            raise RecordingError(path, problem)
    return fights


def write_fit(fit: Fit, out: Path, recordings: Sequence[Path] = ()) -> None:
    """Write the boss file of a fit, and its uncertainty file, which names the recordings.

    Both are complete or unchanged. Raises `BossFileError` if they cannot be written.
    """
    paths = tuple(str(path.resolve()) for path in recordings)
    uncertainty = msgspec.structs.replace(fit.uncertainty, recordings=paths)
    for path, content in ((uncertainty_path(out), uncertainty), (out, fit.boss)):
        try:
            replace_file(path, dump_settings(content).encode())
        except OSError as error:
            raise BossFileError(f"cannot be written: {error.strerror or error}", source=path) from error


def _fight(
    columns: dict[str, NDArray[Any]], player: Sequence[str], boss: Sequence[str], max_hp: float
) -> RecordedFight:
    """Return a fight, given the columns of `MOMENT` that are known, and the names of the animations (T,)."""
    moments = np.zeros(len(player), MOMENT)
    for name, values in columns.items():
        moments[name] = values
    moments["player_animation"], player_names = index_names(player)
    moments["boss_animation"], boss_names = index_names(boss)
    return RecordedFight(
        moments=moments, player_animations=player_names, boss_animations=boss_names, player_max_hp=max_hp
    )


# --- data sets of fights record ----------------------------------------------------------------------------------


def _of_data_set(path: Path) -> list[RecordedFight]:
    description = describe(path)
    fail = partial(DemonstrationError, description.folder)
    boss = str(description.options.get("boss", ""))
    if len(generated_seeds(boss) or ()) > 1:
        raise fail(f"has fights against the bosses {boss}; a fit needs fights against one boss")
    if np.any(description.options.get("boss_intervals") or 0):
        raise fail(
            "has fights against bosses that were drawn from intervals; a fit needs fights against one boss (fights "
            "record: --set env.options.boss_intervals=[0,0]; evaluate: --option boss_intervals=[0,0])"
        )
    if description.options.get("skip_locked"):
        _log.warning(
            "%s: lacks the moments while the player was locked, so the windows of attacks are less exact; record with "
            "skip_locked=false (fights record: --set env.options.skip_locked=false; evaluate: --option "
            "skip_locked=false)",
            description.folder,
        )
    names = [f"episode_{number}" for number in range(description.n_episodes)]
    fights = []
    with Hdf5Reader() as reader:
        for _, node in reader.read_items(description.folder / DATA_NAME, fail, names):
            infos = node.items.get("infos", Hdf5Node(attrs={}))
            # Data sets of other programs may have the fields as observations only.
            places = (infos.items.get("duel"), node.items.get("observations"))
            fields = next((each for each in places if each and "boss_animation_duration" in each.items), None)
            if fields is None:
                raise fail(
                    "does not show the boss, because its fights are not boss duels, or were recorded by an earlier "
                    "version or another program; record boss duels with soulslab fights record"
                )
            try:
                ticks = _ticks_of_episode(fields, infos, description.options)
                is_restored = description.player == TOPPED_UP_PROBE
                fights.append(fight_of_states(fields.array, ticks, is_restored=is_restored))
            except (KeyError, ValueError, TypeError, IndexError) as error:
                raise fail(f"is damaged: {error}") from error
    return fights


def _ticks_of_episode(fields: Hdf5Node, infos: Hdf5Node, options: Mapping[str, Any]) -> NDArray[np.int64]:
    if "tick" in fields.items:
        return _whole(np.asarray(fields.array("tick"), np.float64))
    n = len(fields.array("phase")) - 1
    taken = np.asarray(infos.array("n_decisions") if "n_decisions" in infos.items else np.ones(n + 1), np.int64)
    return ticks_of(taken[-n:], decision_s(options))


def ticks_of(n_decisions: NDArray[np.int64], step_s: float = DECISION_S) -> NDArray[np.int64]:
    """Return the ticks at the start and after each step, int64 (T + 1,).

    ``n_decisions`` are those of each step, (T,), and ``step_s`` is the game time of a decision.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # damaged numbers are refused below
        return _whole(np.concatenate([[0.0], np.cumsum(n_decisions, dtype=np.float64)]) * step_s * TICKS_PER_S)


def _whole(ticks: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return ticks as whole numbers; raise `ValueError` if they do not ascend, or are longer than a day."""
    ticks = np.rint(ticks)
    is_finite = len(ticks) > 0 and bool(np.isfinite(ticks).all())
    # The last step may have been cut short in its first tick.
    if not (is_finite and (np.diff(ticks[:-1]) > 0).all() and (np.diff(ticks) >= 0).all() and ticks[0] >= 0):
        raise ValueError("the times of its steps do not ascend")
    if ticks[-1] > MAX_TICKS:
        raise ValueError("its steps take longer than a day")
    return ticks.astype(np.int64)


def fight_of_states(
    read: Callable[[str], NDArray[Any]], ticks: NDArray[np.int64], *, is_restored: bool = False
) -> RecordedFight:
    """Return a fight, one moment a step.

    Args:
        read: Returns a field of the duel at the start and after each step, (T + 1, size).
        ticks: Ticks at the start and after each step, (T + 1,).
        is_restored: Whether the player's health was restored after each state with less than `TOP_UP_BELOW` of it.
    """

    def column(name: str) -> NDArray[Any]:
        """Return values at all moments but the last: the last step may have ended early, so its time is not known."""
        values = read(name)
        return values.reshape(len(values), -1)[:-1]

    player, boss = column("player_pose"), column("boss_pose")
    names = load_knight().animations
    boss_names = (*BOSS_ANIMATIONS, _UNNAMED)  # -1 is the last one
    columns = {
        "tick": ticks[: len(player)],
        "player_time_s": column("player_animation_duration")[:, 0],
        "boss_time_s": column("boss_animation_duration")[:, 0],
        "player_z": player[:, 2],
    }
    for who, pose in (("player", player), ("boss", boss)):
        columns |= {f"{who}_x": pose[:, 0], f"{who}_y": pose[:, 1], f"{who}_angle": pose[:, 3]}
    columns |= {name: column(name)[:, 0] for name in ("player_hp", "player_sp", "boss_hp", "lock_on", "phase")}
    max_hp = float(column("player_max_hp")[0, 0])
    if is_restored:
        is_low = columns["player_hp"] < TOP_UP_BELOW * max_hp
        columns["is_topped_up"] = np.concatenate([[False], is_low[:-1]])
    return _fight(
        columns,
        [names[number] for number in column("player_animation")[:, 0]],
        [boss_names[number] for number in column("boss_animation")[:, 0]],
        max_hp,
    )


# --- recordings of siphon record ----------------------------------------------------------------------------------


def _of_recording(recording: Recording, profile: Profile) -> list[RecordedFight]:
    binding = Binding(profile.duel, profile.attributes, profile.name)
    missing = [q for q in NEEDED if not binding.has(q) or binding.attributes[q] not in recording.attributes]
    if missing:
        raise RecordingError(recording.path, f"does not have {', '.join(missing)}; record these attributes, too")
    attributes = {q: binding.attributes[q] for q in (*NEEDED, *OPTIONAL) if binding.has(q)}
    attributes = {q: name for q, name in attributes.items() if name in recording.attributes}
    is_readable = np.ones(len(recording), np.bool_)
    for quantity, name in list(attributes.items()):
        if quantity in NEEDED or recording.unreadable[name].mean() < 0.5:
            is_readable &= ~recording.unreadable[name]
        else:  # a wrong address must not discard the recording
            _log.warning("%s: %s could mostly not be read, and is left out", recording.path, name)
            del attributes[quantity]
    values = {q: [binding.decode(q, stored) for stored in recording.attributes[name]] for q, name in attributes.items()}
    tick = np.rint(recording.game_time_s * TICKS_PER_S).astype(np.int64)
    # Of samples in the same tick, the last one counts.
    kept = np.flatnonzero(is_readable & np.concatenate([np.diff(tick) > 0, [True]]))
    hp = np.array([float(values["boss.hp"][i]) for i in kept])
    full = max(hp, default=0.0)
    ends = (np.diff(hp) > HEALED_SHARE * full) | (np.diff(tick[kept]) > GAP_TICKS)
    parts = np.split(kept, np.flatnonzero(ends) + 1)
    fights = [_of_samples(values, tick, part) for part in parts if len(part) > 1]
    fights = [fight for fight in fights if fight.moments["tick"][-1] >= SHORTEST_TICKS]
    if not fights:
        raise RecordingError(recording.path, "does not show a fight")
    return fights


def _of_samples(values: dict[str, list[Any]], tick: NDArray[np.int64], rows: NDArray[np.int64]) -> RecordedFight:
    def column(quantity: str) -> NDArray[Any]:
        return np.array([values[quantity][i] for i in rows])

    columns = {"tick": tick[rows] - tick[rows[0]]}
    for who in ("player", "boss"):
        position = column(f"{who}.position")
        columns |= {f"{who}_x": position[:, 0], f"{who}_y": position[:, 1], f"{who}_hp": column(f"{who}.hp")}
        columns |= {f"{who}_angle": column(f"{who}.angle"), f"{who}_time_s": column(f"{who}.animation_time")}
    columns["player_z"] = column("player.position")[:, 2]
    optional = {"player.sp": "player_sp", "lock_on": "lock_on", "phase": "phase"}
    columns |= {ours: column(theirs) for theirs, ours in optional.items() if theirs in values}
    names = [[str(values[f"{who}.animation"][i]) for i in rows] for who in ("player", "boss")]
    return _fight(columns, names[0], names[1], float(column("player.max_hp").max()))
