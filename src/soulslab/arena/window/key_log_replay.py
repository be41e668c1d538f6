"""Replay of a key log, and verification that it gives the logged fight."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from soulslab.arena.boss_file import Boss, load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight, LiveFightOptions
from soulslab.arena.window.key_log import KeyLog, State, Ticks
from soulslab.errors import BossFileError, KeyLogError, UnknownBossError


class Replay:
    """Replays a key log tick by tick.

    Args:
        log: The log.

    Attributes:
        fight: The fight that is replayed.
        n_ticks: Number of ticks replayed so far.
        is_over: Whether the whole log has been replayed.

    Raises:
        KeyLogError: The log's boss cannot be read, or has changed.
    """

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

        Raises:
            KeyLogError: The replayed fight differs from the logged one, or the log contains a state that cannot occur
                in a fight.
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
            self._compare(line)

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

    def _compare(self, line: Ticks) -> None:
        if line.digest is not None and line.digest != self.fight.digest():
            raise self._difference_error(self.fight.n_ticks)

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
            boss: Boss = load_boss(header.boss, list(load_knight().knock_backs))
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
