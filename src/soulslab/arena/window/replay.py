"""Playing a key log again, and making sure that it comes to the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from soulslab.arena.boss_file import Boss, load_boss
from soulslab.arena.knight import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.window.keylog import KeyLog, State, Ticks
from soulslab.errors import BossFileError, KeyLogError, UnknownBossError


class Replay:
    """A key log that plays, tick by tick.

    Args:
        log: What was done.

    Attributes:
        fight: The fight that it plays.
        n_ticks: Ticks that it has played.
        is_over: Whether all has been played.

    Raises:
        KeyLogError: Its boss cannot be read, or is not what it was.
    """

    def __init__(self, log: KeyLog) -> None:
        self._log = log
        self.fight = self._new_fight()
        self.n_ticks = 0
        self.is_over = False
        slack = max((check.slack_ticks for check in log.checks), default=0)
        # What the fight came to in the last ticks; it is compared when all ticks that a check allows have been played.
        self._digests: deque[tuple[int, int]] = deque(maxlen=2 * slack + 1)
        self._checks = deque(sorted(log.checks, key=lambda check: check.tick + check.slack_ticks))
        self._steps = self._play()

    def tick(self) -> None:
        """Play the next tick; nothing happens when all has been played.

        Raises:
            KeyLogError: The fight that is played is no longer the one that was logged, or the log holds a state that no
                fight can be in.
        """
        if next(self._steps, None) is None:
            self.is_over = True

    def _play(self) -> Iterator[bool]:
        """Play a tick for each value that is asked for."""
        game = self.fight
        for line in self._log.lines:
            if isinstance(line, State):
                try:
                    line.bring_into(game)
                except ValueError as error:
                    raise KeyLogError(self._log.source, f"after tick {game.n_ticks}: {error}") from error
                continue
            for n, code in line.runs:
                for _ in range(n):
                    self._play_tick(code)
                    yield True
            self._compare(line)

    def _play_tick(self, code: int) -> None:
        game = self.fight
        game.next_generator = self._log.generators.get(game.n_fights + 1)
        game.play_again(code)
        self.n_ticks += 1
        if not self._checks:
            return
        self._digests.append((game.n_ticks, game.digest()))
        while self._checks and self._checks[0].tick + self._checks[0].slack_ticks <= game.n_ticks:
            check = self._checks.popleft()
            near = [digest for tick, digest in self._digests if abs(tick - check.tick) <= check.slack_ticks]
            if check.digest not in near:
                raise self._parted(check.tick)

    def _compare(self, line: Ticks) -> None:
        if line.digest is not None and line.digest != self.fight.digest():
            raise self._parted(self.fight.n_ticks)

    def _parted(self, tick: int) -> KeyLogError:
        return KeyLogError(
            self._log.source,
            f"in or before tick {tick} ({tick / 60:.1f} s) the fight came to something else than was logged: either "
            "the rules have changed since then, or something other than keys changed the fight",
            tick=tick,
        )

    def _new_fight(self) -> LiveFight:
        header = self._log.header
        try:
            boss: Boss = load_boss(header.boss, list(load_knight().knock_backs))
        except (BossFileError, UnknownBossError) as error:
            raise KeyLogError(self._log.source, f"its boss: {error}") from error
        options = LiveFightOptions(
            phase=header.phase, random_pose=header.random_pose, seed=header.seed if header.seed is not None else 0
        )
        game = LiveFight(boss, options)
        if game.rules_digest != header.rules_digest:
            raise KeyLogError(
                self._log.source,
                f"the boss {header.boss!r} or the knight is not what it was when this was logged; the log plays only "
                "with the version of soulslab, or of the boss file, that it was made with",
            )
        if header.generator is not None:
            game.next_generator, game.n_fights = header.generator, 0
            game.begin()
        game.n_ticks = header.first_tick
        return game
