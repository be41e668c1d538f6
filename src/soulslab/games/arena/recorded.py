"""A recording of the built-in fight as a key log: what a person played can be played again.

The game keeps the codes of its last 256 ticks in its memory, so that a recording of a few samples a second holds every
tick. A recording reads a game that runs: what is read in one sample may be some ticks apart.
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

from soulslab.arena.boss_file import Boss, boss_names, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import HISTORY_TICKS, STAGES, LiveFight, LiveFightOptions
from soulslab.arena.records import PHASES
from soulslab.arena.window.key_log import Check, Header, KeyLog, Phase, Ticks, runs_of
from soulslab.arena.window.key_log_replay import Replay
from soulslab.errors import KeyLogError, RecordingError
from soulslab.siphon.recording.reading import Recording

#: What one sample reads may be this far apart: the game publishes at most 12 ticks at once.
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


def key_log_of(recording: Recording, boss: str | Path = "judge") -> KeyLog:
    """Return the fights of a recording, from the first one that it holds from its beginning.

    Args:
        recording: Of the built-in game, with all attributes of its profile.
        boss: Looked at besides the shipped ones: the path of a boss file.

    Raises:
        RecordingError: It is no recording of this game, lacks ticks, or has no beginning of a fight.
    """
    samples = _Samples(recording)
    first_tick = samples.first_tick()
    name, options = _rules(recording.path, samples.rules, boss)
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
    return _to_the_end(log, *samples.tail(first_tick + len(codes)))


class _Samples:
    """What the samples of a recording say, those that could be read.

    Attributes:
        first_number: Number of the first fight that was recorded from its beginning.
        generators: State of the generator before each fight, by its number.
        rules: `LiveFight.rules_digest`.
    """

    def __init__(self, recording: Recording) -> None:
        self._path = recording.path
        missing = [name for name in _NEEDED if name not in recording.attributes]
        if missing:
            raise RecordingError(
                recording.path,
                f"it lacks {', '.join(missing)}, so that it cannot be played again; record all attributes of the arena",
            )
        readable = ~np.any([recording.unreadable[name] for name in _NEEDED], axis=0)
        if not readable.any():
            raise RecordingError(recording.path, "nothing of the fight could be read")
        values: Mapping[str, NDArray[Any]] = {name: recording.attributes[name][readable] for name in _NEEDED}
        self._ticks = values["game.tick"].astype(np.int64)
        self._values = values
        self.rules = int(values["fight.rules"][0])
        self.first_number = 0
        self.generators = self._generators()

    def first_tick(self) -> int:
        """Return the game's tick before the first one of the first fight that was recorded from its beginning.

        Raises:
            RecordingError: There is none.
        """
        numbers, ticks = self._values["fight.number"].astype(np.int64), self._values["fight.tick"].astype(np.int64)
        for i in np.flatnonzero(self._values["game.stage"] == _FIGHTING):
            begun = int(self._ticks[i] - ticks[i])
            is_whole = ticks[i] <= HISTORY_TICKS - 2 * SLACK_TICKS
            is_settled = numbers[i] in self.generators and self._begins_at(int(i), begun)
            if is_whole and is_settled:
                self.first_number = int(numbers[i])
                return begun
        raise RecordingError(
            self._path,
            "no fight begins in it; begin to record first, then press the key for a restart, or record with --start",
        )

    def codes(self, first_tick: int) -> list[int]:
        """Return the code of each tick after one.

        Raises:
            RecordingError: Some are in no sample: too few were taken.
        """
        found: dict[int, int] = {}
        last = int(self._ticks.max())
        for tick, history in zip(self._ticks.tolist(), self._values["game.history"], strict=True):
            # The newest may not be there yet, and the oldest may have been written over.
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
        """Return the codes after a tick that the last sample may hold already, and what the fight had come to then."""
        i = int(self._ticks.argmax())
        history = self._values["game.history"][i]
        ticks = range(last_tick + 1, int(self._ticks[i]) + SLACK_TICKS + 1)
        return [int(history[n % HISTORY_TICKS]) for n in ticks], int(self._values["fight.digest"][i])

    def checks(self, first_tick: int, last_tick: int) -> Iterator[Check]:
        """Yield what the fight was seen to have come to."""
        for tick, digest in zip(self._ticks.tolist(), self._values["fight.digest"].tolist(), strict=True):
            if first_tick < tick - SLACK_TICKS and tick + SLACK_TICKS <= last_tick:
                yield Check(tick=tick, digest=int(digest), slack_ticks=SLACK_TICKS)

    def _begins_at(self, i: int, begun: int) -> bool:
        """Tell whether a sample's ticks belong together: the fight's next sample says the same of its beginning."""
        numbers, ticks = self._values["fight.number"], self._values["fight.tick"].astype(np.int64)
        same = [
            j
            for j in range(i + 1, len(self._ticks))
            if numbers[j] == numbers[i] and self._values["game.stage"][j] == _FIGHTING
        ]
        return not same or any(int(self._ticks[j] - ticks[j]) == begun for j in same[:3])

    def _generators(self) -> dict[int, int]:
        """Return the state that most samples of a fight tell."""
        numbers, states = self._values["fight.number"].astype(np.int64), self._values["fight.generator"]
        found = {}
        for number in np.unique(numbers):
            told, counts = np.unique(states[numbers == number], return_counts=True)
            found[int(number)] = int(told[np.argmax(counts)])
        return found


def _to_the_end(log: KeyLog, tail: list[int], digest: int) -> KeyLog:
    """Return a log with as much of a tail as leads to the fight of this digest; as it is if no part of it does."""
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
        _log.debug("%s; whoever plays it hears of it", error)
    return log


def _rules(path: Path, digest: int, boss: str | Path) -> tuple[str, LiveFightOptions]:
    """Return the boss and the options that were played."""
    bosses = list(dict.fromkeys([str(boss), *boss_names()]))
    knock_backs = list(load_knight().knock_backs)
    for name, phase, random_pose in product(bosses, PHASES, (False, True)):
        options = LiveFightOptions(phase=phase, random_pose=random_pose)
        read: Boss = load_boss(name, knock_backs)
        if LiveFight(read, options).rules_digest == digest:
            return name, options
    raise RecordingError(
        path,
        f"none of the bosses {', '.join(bosses)} is the one that was fought; name its file with --boss, and play it "
        "with the version of soulslab that recorded it",
    )
