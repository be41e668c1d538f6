"""Episodes that change nothing in the game: a fight from its beginning to its end, through both phases."""

from __future__ import annotations

import time

import numpy as np

from soulslab.arena.live_fight import STAGES
from soulslab.arena.records import Record
from soulslab.envs.game.session_holder import Deadline
from soulslab.envs.tasks.duel.duel_game import DuelGame
from soulslab.envs.tasks.duel.duel_scenario import Scenario
from soulslab.envs.tasks.duel.entrance import Entrance, RespawnEntrance, Visit
from soulslab.envs.tasks.duel.episode import EpisodeSettings, Verdict
from soulslab.envs.tasks.duel.lock_on_recovery import LostLock
from soulslab.envs.tasks.duel.reset_states import ResetLog, ResetRunner
from soulslab.envs.tasks.duel.respawn import seed_fight
from soulslab.errors import SiphonError
from soulslab.siphon.session import LOADING


class DemoEpisode:
    """One fight, as the game itself has it (`soulslab.envs.tasks.duel.episode.Episode`).

    A fresh fight is what the entrance gets. By default it is asked for with the restart key; where a game has none, the
    end of a fight that is over is waited for, and one that is still going on is left by a restart of the game. With a
    seed, and a game that takes one (``fight.next_seed``), the fight is the same each time: in lockstep an episode
    begins at its very first tick. The first fight after a start is seeded too, so that no two games fight the same.

    Args:
        scenario: The boss and its place.
        settings: Phase, retries and the time after which the game is restarted.
        entrance: Gets the game to a fight; None for `RespawnEntrance`. Who comes to a fight by one is not locked on,
            and the key for it is pressed; a game that begins its fights by itself locks on by itself.

    Attributes:
        log: What the resets took so far.
    """

    def __init__(self, scenario: Scenario, settings: EpisodeSettings, entrance: Entrance | None = None) -> None:
        self.log = ResetLog()
        self._entrance = entrance or RespawnEntrance()
        self._lock = None if entrance is None else LostLock()
        self._runner = ResetRunner(self.log, settings.max_retries, settings.hard_reset_minutes)
        self._goal_hp = float(scenario.phase_two_hp) if settings.phase == "1" else 0.0
        self._start_phase = 2 if settings.phase == "2" else 1
        self._stage = ""

    @property
    def quantities(self) -> tuple[str, ...]:
        """See `Episode.quantities`."""
        return ("game.stage",)

    @property
    def start_phase(self) -> int:
        """See `Episode.start_phase`."""
        return self._start_phase

    @property
    def start_pose(self) -> int:
        """See `Episode.start_pose`: the game chooses."""
        return -1

    @property
    def presses(self) -> tuple[str, ...]:
        """See `Episode.presses`: the lock-on, where the entrance has left it to us."""
        return () if self._lock is None else self._lock.presses

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """See `Episode.begin`."""

        def attempt(n: int, is_fresh: bool) -> None:
            seed_fight(game, rng, seed, is_fresh)
            visit = Visit(
                deadline=deadline,
                needs_another=True,
                may_kill=False,
                is_fresh=is_fresh,
                n_tries=n,
                restart=lambda: self._runner.restart(game, deadline),
                log=self.log,
            )
            self._entrance.enter(game, visit)

        self._runner.run(game, deadline, attempt)
        self._stage = ""
        if self._lock is not None:
            self._lock.begin(game, is_due=True)

    def account(self, game: DuelGame, state: Record, read: dict[str, object]) -> None:
        """See `Episode.account`: only the stage and the lock-on are taken down."""
        del game
        if self._lock is not None:
            self._lock.see(state)
        stage = read.get("game.stage")
        self._stage = "" if stage is None else STAGES[int(stage)]  # type: ignore[call-overload]

    def verdict(self, state: Record) -> Verdict:
        """See `Episode.verdict`: by what the game shows, or by the health of both."""
        if self._stage in ("won", "lost"):
            return "won" if self._stage == "won" else "lost"
        if state.player_hp <= 0.0:
            return "lost"
        return "won" if state.boss_hp <= self._goal_hp else ""

    def release(self, game: DuelGame) -> None:
        """See `Episode.release`: only what the entrance has changed."""
        self._entrance.leave(game)


POLL_S = 0.02
_VITALS = ("player.hp", "boss.hp", "game.stage")


class ObservedEpisode(DemoEpisode):
    """One fight as the player of the game has it (`soulslab.envs.tasks.duel.episode.Episode`).

    An episode begins with the next look at a fight that goes on, wherever in the fight that is. Seeds have no effect.
    """

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """Wait until the player and the boss fight.

        Raises:
            WaitTimeoutError: They do not before the deadline.
            SiphonError: The game cannot be observed.
        """
        del rng, seed
        self._stage = ""
        if game.holder.is_lost:
            game.holder.reopen()
        while True:
            cause: SiphonError | None = None
            try:
                seen = game.read(*(name for name in _VITALS if game.has(name)))
            except LOADING as error:
                cause, seen = error, {}
            if seen and self._is_fight(seen):
                return
            deadline.check("a fight to be played", cause, f"it is {seen}")
            time.sleep(POLL_S)

    def release(self, game: DuelGame) -> None:
        """See `Episode.release`: nothing was changed."""

    def _is_fight(self, seen: dict[str, float]) -> bool:
        stage = seen.get("game.stage")
        is_going_on = stage is None or STAGES[int(stage)] == "fighting"
        return is_going_on and seen["player.hp"] > 0.0 and seen["boss.hp"] > self._goal_hp
