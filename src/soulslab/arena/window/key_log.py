"""Key logs: the input of each tick of a game, from which the game can be replayed exactly.

A log is a text file with one JSON object per line: a `Header`, then a `Ticks` object at least once per second, and a
`State` object whenever another process wrote to the game's memory, which the keys do not explain. A log that was cut
off can be replayed up to its last complete line.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Annotated, BinaryIO, Final, Literal, TypeAlias, cast

import msgspec
import numpy as np
from msgspec import Meta

from soulslab.arena.boss_catalog import find_boss
from soulslab.arena.live_fight import HISTORY_TICKS, LiveFight, LiveFightOptions, Stage
from soulslab.arena.records import DUEL, TICKS_PER_S
from soulslab.arena.simulator import find_impossible_field
from soulslab.config.input_files import read_bytes
from soulslab.errors import BossFileError, KeyLogError, UnknownBossError

FORMAT: Final = 1
#: Version of the rules: that of the environment ids, as in ``soulslab/Arena-v0``.
RULES: Final = 0
Phase: TypeAlias = Literal["1", "2", "full"]
#: Longest interval between two writes of the log, each of which contains a digest of the fight.
CHECK_TICKS: Final = TICKS_PER_S


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="soulslab key log"):
    """First line of a log: the fight that was played.

    Attributes:
        boss: Name of a shipped boss, ``generated:SEED``, or the path of a boss file.
        seed: Seed of the first fight; None if it started from a generator state.
        generator: State of the generator before the first fight, if it was not seeded.
        first_tick: Number of ticks of the game before the first one of the log.
    """

    format: int = FORMAT
    rules: int = RULES
    rules_digest: int
    boss: str
    phase: Phase
    random_pose: bool
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    generator: Annotated[int, Meta(ge=0)] | None = None
    first_tick: Annotated[int, Meta(ge=0, lt=2**53)] = 0


class Ticks(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="ticks"):
    """The input of consecutive ticks.

    Attributes:
        runs: Run-length encoded codes (`LiveFight.history`), as (number of ticks, code).
        stages: Ticks (counted as `LiveFight.n_ticks`) at which a stage began; for people and other programs.
        digest: `LiveFight.digest` after the last of these ticks; None if unknown.
    """

    runs: tuple[tuple[Annotated[int, Meta(ge=1, le=2**31)], Annotated[int, Meta(ge=0, le=255)]], ...]
    stages: tuple[tuple[int, Stage], ...] = ()
    digest: int | None = None


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag="state"):
    """The complete state of a fight after another process wrote to the game's memory.

    ``duel`` has the bytes of the `DUEL` record; the other fields are those of `LiveFight`.
    """

    duel: bytes
    no_death: bool
    no_gravity: bool
    no_attack: bool
    next_seed: int | None

    @staticmethod
    def of(game: LiveFight) -> State:
        """Return the present state of a game."""
        kept = {name: getattr(game, name) for name in State.__struct_fields__ if name != "duel"}
        return State(duel=game.duel.tobytes(), **kept)

    def apply_to(self, game: LiveFight) -> None:
        """Set the state of a game; raises `ValueError` and changes nothing if this state cannot occur in a fight."""
        records = np.frombuffer(self.duel, DUEL)
        wrong = find_impossible_field(records, game.fight)
        if wrong:
            raise ValueError(f"this state cannot occur in a fight: {wrong}")
        record = records[0]
        for name in DUEL.names or ():
            game.duel[name] = record[name]
        game.no_death, game.no_gravity, game.no_attack = self.no_death, self.no_gravity, self.no_attack
        game.next_seed = self.next_seed


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A digest of a fight that was read from outside, such as by a recording of a running game.

    ``tick`` is `LiveFight.n_ticks` at the time of reading, with an error of up to ``slack_ticks``.
    """

    tick: int
    digest: int
    slack_ticks: int


Line: TypeAlias = Ticks | State


class KeyLog(msgspec.Struct, frozen=True, kw_only=True):
    """A complete log.

    ``generators`` has the state of the generator before each later fight, by its number (the first fight is number 1).
    """

    source: Path
    header: Header
    lines: tuple[Line, ...]
    checks: tuple[Check, ...] = ()
    generators: dict[int, int] = {}

    @property
    def n_ticks(self) -> int:
        """Number of ticks in the log."""
        return sum(n for line in self.lines if isinstance(line, Ticks) for n, _ in line.runs)


class KeyLogWriter:
    """Writes the log of a running game, from before its first tick.

    Raises `KeyLogError` if the file exists, or cannot be created.
    """

    def __init__(self, path: Path, game: LiveFight, boss: str) -> None:
        self._path = path
        self._codes: list[int] = []
        self._stages: list[tuple[int, Stage]] = []
        self._stage = game.stage
        try:
            self._file: BinaryIO = path.open("xb")
        except FileExistsError as error:
            raise KeyLogError(path, "already exists; choose another name, or remove the file") from error
        except OSError as error:
            raise KeyLogError(path, f"cannot be created: {error.strerror}") from error
        phase, random_pose, seed = cast("Phase", game.options.phase), game.options.random_pose, game.options.seed
        digest = game.rules_digest
        self._write(Header(rules_digest=digest, boss=boss, phase=phase, random_pose=random_pose, seed=seed))

    def tick(self, game: LiveFight) -> None:
        """Log the tick that was just played."""
        self._codes.append(int(game.history[game.n_ticks % HISTORY_TICKS]))
        if game.stage != self._stage:
            self._stage = game.stage
            self._stages.append((game.n_ticks, game.stage))
        if len(self._codes) >= CHECK_TICKS:
            self._flush(game.digest())

    def log_write(self, game: LiveFight, digest: int) -> None:
        """Log that another process wrote to the game's memory; ``digest`` is that of the game before the write."""
        self._flush(digest)
        self._write(State.of(game))

    def close(self, game: LiveFight) -> None:
        """Write the remaining ticks and close the file."""
        self._flush(game.digest())
        self._file.close()

    def _flush(self, digest: int) -> None:
        """Write all buffered ticks."""
        if self._codes:
            self._write(Ticks(runs=runs_of(self._codes), stages=tuple(self._stages), digest=digest))
            self._codes.clear()
            self._stages.clear()

    def _write(self, line: Header | Line) -> None:
        try:
            self._file.write(msgspec.json.encode(line) + b"\n")
            self._file.flush()
        except OSError as error:
            raise KeyLogError(self._path, f"cannot be written: {error.strerror}") from error


def runs_of(codes: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return the run-length encoding of codes, as (number of ticks, code)."""
    return tuple((len(list(same)), code) for code, same in groupby(codes))


_MAX_BYTES: Final = 256 << 20
_MAX_TICKS: Final = TICKS_PER_S * 3600 * 100
_DAMAGE: Final = (msgspec.DecodeError, ValueError, RecursionError)  # ValueError: the text is not UTF-8
_LINE: msgspec.json.Decoder[Line] = msgspec.json.Decoder(Ticks | State)


def read_key_log(path: Path) -> KeyLog:
    """Read a log; if it was cut off, read it up to its last complete line.

    Raises `KeyLogError` if the file cannot be read, is not a key log, or has another version.
    """
    texts = read_bytes(path, _MAX_BYTES, partial(KeyLogError, path)).split(b"\n")
    # The text after the last line break is an incomplete line, or empty.
    whole = texts[:-1]
    header = _header(path, whole[0] if whole else texts[0])
    lines, n_ticks = [], 0
    for i, text in enumerate(whole[1:], start=2):
        try:
            line = _LINE.decode(text)
        except _DAMAGE as error:
            raise KeyLogError(path, f"line {i} is damaged: {error}") from error
        if isinstance(line, State) and len(line.duel) != DUEL.itemsize:
            raise KeyLogError(path, f"line {i} is damaged: a state of {len(line.duel)} bytes, not {DUEL.itemsize}")
        lines.append(line)
        n_ticks += sum(n for n, _ in line.runs) if isinstance(line, Ticks) else 0
        if n_ticks > _MAX_TICKS:
            raise KeyLogError(path, f"line {i} is damaged: it is more than {_MAX_TICKS} ticks after the first one")
    return KeyLog(source=path, header=header, lines=tuple(lines))


def _header(path: Path, text: bytes) -> Header:
    try:
        version = msgspec.json.decode(text, type=_Version)
    except _DAMAGE as error:
        raise KeyLogError(path, f"is not a key log: {error}") from error
    if version.format != FORMAT:
        raise KeyLogError(path, f"its format is {version.format}; this soulslab reads format {FORMAT}")
    if version.rules != RULES:
        raise KeyLogError(path, f"was played with rules version {version.rules}; this soulslab has version {RULES}")
    try:
        return msgspec.json.decode(text, type=Header)
    except _DAMAGE as error:
        raise KeyLogError(path, f"line 1 is damaged: {error}") from error


class _Version(msgspec.Struct, frozen=True, tag="soulslab key log"):
    format: int
    rules: int


class Replay:
    """Replays a key log tick by tick; raises `KeyLogError` if the log's boss cannot be read, or has changed."""

    def __init__(self, log: KeyLog) -> None:
        self._log = log
        self.fight = self._new_fight()
        self.n_ticks = 0
        self.is_over = False
        slack = max((check.slack_ticks for check in log.checks), default=0)
        # Digests of the last ticks; a check is compared when all ticks within its slack have been played.
        self._digests: deque[tuple[int, int]] = deque(maxlen=2 * slack + 1)
        self._checks = deque(sorted(log.checks, key=lambda check: check.tick + check.slack_ticks))
        self._steps = self._play()

    def tick(self) -> None:
        """Play the next tick; do nothing at the end of the log.

        Raises `KeyLogError` if the fight differs from the logged one, or the log contains a state that cannot occur.
        """
        if next(self._steps, None) is None:
            self.is_over = True

    def _play(self) -> Iterator[bool]:
        """Play one tick for each value that is requested."""
        game = self.fight
        for line in self._log.lines:
            if isinstance(line, State):
                try:
                    line.apply_to(game)
                except ValueError as error:
                    raise KeyLogError(self._log.source, f"after tick {game.n_ticks}: {error}") from error
                continue
            for n, code in line.runs:
                for _ in range(n):
                    self._play_tick(code)
                    yield True
            if line.digest is not None and line.digest != game.digest():
                raise self._difference_error(game.n_ticks)

    def _play_tick(self, code: int) -> None:
        game = self.fight
        game.next_generator = self._log.generators.get(game.n_fights + 1)
        game.replay_tick(code)
        self.n_ticks += 1
        if not self._checks:
            return
        self._digests.append((game.n_ticks, game.digest()))
        while self._checks and self._checks[0].tick + self._checks[0].slack_ticks <= game.n_ticks:
            check = self._checks.popleft()
            near = [digest for tick, digest in self._digests if abs(tick - check.tick) <= check.slack_ticks]
            if check.digest not in near:
                raise self._difference_error(check.tick)

    def _difference_error(self, tick: int) -> KeyLogError:
        return KeyLogError(
            self._log.source,
            f"in or before tick {tick} ({tick / 60:.1f} s) the fight differs from the logged one: either the rules "
            "have changed since then, or something other than keys changed the fight",
            tick=tick,
        )

    def _new_fight(self) -> LiveFight:
        header = self._log.header
        try:
            boss = find_boss(header.boss)
        except (BossFileError, UnknownBossError) as error:
            raise KeyLogError(self._log.source, f"the boss of the log: {error}") from error
        options = LiveFightOptions(
            phase=header.phase, random_pose=header.random_pose, seed=header.seed if header.seed is not None else 0
        )
        game = LiveFight(boss, options)
        if game.rules_digest != header.rules_digest:
            raise KeyLogError(
                self._log.source,
                f"the boss {header.boss!r} or the knight has changed since this was logged; the log can be replayed "
                "only with the version of soulslab, or of the boss file, that it was made with",
            )
        if header.generator is not None:
            game.next_generator, game.n_fights = header.generator, 0
            game.begin()
        game.n_ticks = header.first_tick
        return game
