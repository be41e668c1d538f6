"""Conversion of a recording of the built-in fight to a key log, which can be replayed.

The game keeps the action codes of its last 256 ticks in memory, so a recording with a few samples per second contains
every tick. The game runs while the recording reads it, so the values of one sample may be some ticks apart.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.boss_file import boss_names
from soulslab.arena.live_fight import HISTORY_TICKS, STAGES, LiveFight, LiveFightOptions
from soulslab.arena.records import PHASES
from soulslab.arena.window.key_log import Check, Header, KeyLog, Phase, Replay, Ticks, runs_of
from soulslab.errors import KeyLogError, RecordingError
from soulslab.siphon.recording.reading import Recording

#: The values of one sample may be this far apart: the game publishes at most 12 ticks at once.
SLACK_TICKS: Final = 16
_NEEDED: Final = (
    "game.tick",
    "game.history",
    "game.stage",
    "fight.tick",
    "fight.number",
    "fight.rules",
    "fight.digest",
    "fight.generator",
)
_log = logging.getLogger(__name__)
_FIGHTING: Final = STAGES.index("fighting")


def key_log_from_recording(recording: Recording, boss: str | Path = "judge") -> KeyLog:
    """Return the fights of a recording as a key log, from the first fight that was recorded from its start.

    The recording has all attributes of the arena's profile. `boss` may be the path of a boss file, which is compared in
    addition to the built-in bosses.

    Raises:
        RecordingError: The recording is of another game, lacks ticks, or does not contain the start of a fight.
    """
    samples = _Samples(recording)
    first_tick = samples.first_tick()
    name, options = _find_rules(recording.path, samples.rules, boss)
    codes = samples.codes(first_tick)
    header = Header(
        rules_digest=samples.rules,
        boss=name,
        phase=cast("Phase", options.phase),
        random_pose=options.random_pose,
        generator=samples.generators[samples.first_number],
        first_tick=first_tick,
    )
    later = samples.generators.items()
    log = KeyLog(
        source=recording.path,
        header=header,
        lines=(Ticks(runs=runs_of(codes)),),
        checks=tuple(samples.checks(first_tick, first_tick + len(codes))),
        generators={n - samples.first_number + 1: state for n, state in later if n > samples.first_number},
    )
    return _extend_to_digest(log, *samples.tail(first_tick + len(codes)))


class _Samples:
    """Samples of a recording in which all attributes could be read.

    ``first_number`` is the number of the first fight that was recorded from its start. ``generators`` has the state of
    the random number generator before each fight, by the number of the fight.
    """

    def __init__(self, recording: Recording) -> None:
        self._path = recording.path
        missing = [name for name in _NEEDED if name not in recording.attributes]
        if missing:
            raise RecordingError(
                recording.path,
                f"it lacks {', '.join(missing)}, so it cannot be replayed; record all attributes of the arena",
            )
        readable = ~np.any([recording.unreadable[name] for name in _NEEDED], axis=0)
        if not readable.any():
            raise RecordingError(recording.path, "no sample of the fight could be read")
        values: Mapping[str, NDArray[Any]] = {name: recording.attributes[name][readable] for name in _NEEDED}
        self._ticks = values["game.tick"].astype(np.int64)
        self._values = values
        self._numbers = values["fight.number"].astype(np.int64)
        self._fight_starts = self._ticks - values["fight.tick"].astype(np.int64)
        self._is_fighting = values["game.stage"] == _FIGHTING
        self.rules = int(values["fight.rules"][0])
        self.first_number = 0
        self.generators = self._generators()

    def first_tick(self) -> int:
        """Return the tick of the game before the first tick of the first fight that was recorded from its start."""
        for i in np.flatnonzero(self._is_fighting):
            is_whole = self._ticks[i] - self._fight_starts[i] <= HISTORY_TICKS - 2 * SLACK_TICKS
            if is_whole and self._is_start_consistent(int(i)):
                self.first_number = int(self._numbers[i])
                return int(self._fight_starts[i])
        raise RecordingError(
            self._path,
            "it contains no start of a fight; start recording, then press the restart key, or record with --start",
        )

    def codes(self, first_tick: int) -> list[int]:
        """Return the action code of each tick after ``first_tick``; raise an error if a tick is in no sample."""
        found: dict[int, int] = {}
        last = int(self._ticks.max())
        for tick, history in zip(self._ticks.tolist(), self._values["game.history"], strict=True):
            # The newest code may not have been written yet, and the oldest may have been overwritten.
            for n in range(max(first_tick + 1, tick - HISTORY_TICKS + 1 + SLACK_TICKS), tick - SLACK_TICKS + 1):
                found.setdefault(n, int(history[n % HISTORY_TICKS]))
        wanted = range(first_tick + 1, max(last - SLACK_TICKS, first_tick) + 1)
        gap = next((tick for tick in wanted if tick not in found), None)
        if gap is not None:
            raise RecordingError(
                self._path, f"tick {gap} of the game is in no sample; record at least 2 samples a second of game time"
            )
        return [found[tick] for tick in wanted]

    def tail(self, last_tick: int) -> tuple[list[int], int]:
        """Return the codes after a tick that the last sample may already contain, and the digest at that sample."""
        i = int(self._ticks.argmax())
        history = self._values["game.history"][i]
        ticks = range(last_tick + 1, int(self._ticks[i]) + SLACK_TICKS + 1)
        return [int(history[n % HISTORY_TICKS]) for n in ticks], int(self._values["fight.digest"][i])

    def checks(self, first_tick: int, last_tick: int) -> Iterator[Check]:
        """Yield the recorded digests of the fight as checks."""
        for tick, digest in zip(self._ticks.tolist(), self._values["fight.digest"].tolist(), strict=True):
            if first_tick < tick - SLACK_TICKS and tick + SLACK_TICKS <= last_tick:
                yield Check(tick=tick, digest=int(digest), slack_ticks=SLACK_TICKS)

    def _is_start_consistent(self, i: int) -> bool:
        """Return whether one of the next samples of the fight gives the same start tick."""
        is_later = (np.arange(len(self._ticks)) > i) & (self._numbers == self._numbers[i]) & self._is_fighting
        starts = self._fight_starts[is_later][:3]
        return not starts.size or bool((starts == self._fight_starts[i]).any())

    def _generators(self) -> dict[int, int]:
        """Return the most frequent generator state of each fight, by the number of the fight."""
        states = self._values["fight.generator"]
        found = {}
        for number in np.unique(self._numbers):
            distinct, counts = np.unique(states[self._numbers == number], return_counts=True)
            found[int(number)] = int(distinct[np.argmax(counts)])
        return found


def _extend_to_digest(log: KeyLog, tail: list[int], digest: int) -> KeyLog:
    """Return the log extended up to the tick with this digest; unchanged if no tick of the tail has it."""
    longer = msgspec.structs.replace(log, lines=(*log.lines, Ticks(runs=runs_of(tail))))
    try:
        replay = Replay(longer)
        while replay.n_ticks < log.n_ticks:
            replay.tick()
        for n in range(len(tail) + 1):
            if replay.fight.digest() == digest:
                end = Ticks(runs=runs_of(tail[:n]), digest=digest)
                return msgspec.structs.replace(log, lines=(*log.lines, end))
            replay.tick()
    except KeyLogError as error:
        _log.debug("the log was not extended: %s", error)
    return log


def _find_rules(path: Path, digest: int, boss: str | Path) -> tuple[str, LiveFightOptions]:
    """Return the boss and the options whose rules have this digest."""
    bosses = list(dict.fromkeys([str(boss), *boss_names()]))
    for name, phase, random_pose in product(bosses, PHASES, (False, True)):
        options = LiveFightOptions(phase=phase, random_pose=random_pose)
        if LiveFight(find_boss(name), options).rules_digest == digest:
            return name, options
    raise RecordingError(
        path,
        f"the recorded boss is not one of {', '.join(bosses)}; give its file with --boss, and use the version of "
        "soulslab that made the recording",
    )
