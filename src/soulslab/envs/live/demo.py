"""Episodes that change nothing in the game: a fight from its beginning to its end, through both phases."""

from __future__ import annotations

import numpy as np

from soulslab.arena.live_fight import STAGES
from soulslab.arena.state import Record
from soulslab.envs.live.duel_game import DuelGame
from soulslab.envs.live.episode import EpisodeSettings, Verdict
from soulslab.envs.live.reset import ResetLog, ResetRunner, reach
from soulslab.envs.live.respawn import FIGHT, RESTART_KEY, ask_states, end_states, fight_number, load_state, stage_of
from soulslab.envs.live.scenario import Scenario
from soulslab.envs.process_start import Deadline
from soulslab.siphon.session import LOADING

#: Seeds are drawn below this.
SEEDS = 2**63


class DemoEpisode:
    """One fight, as the game itself has it (`soulslab.envs.live.episode.Episode`).

    A fresh fight is asked for with the restart key. Where a game has none, the end of a fight that is over is waited
    for, and one that is still going on is left by a restart of the game. With a seed, and a game that takes one
    (``fight.next_seed``), the fight is the same each time: in lockstep an episode begins at its very first tick. The
    first fight after a start of the game is seeded too, so that no two games fight the same.

    Args:
        scenario: The boss and its place.
        settings: Phase, retries and the time after which the game is restarted.

    Attributes:
        log: What the resets took so far.
    """

    def __init__(self, scenario: Scenario, settings: EpisodeSettings) -> None:
        self.log = ResetLog()
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

    def begin(self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline) -> None:
        """See `Episode.begin`."""

        def attempt(_: int, is_fresh: bool) -> None:
            self._begin(game, rng, seed, deadline, is_fresh)

        self._runner.run(game, deadline, attempt)
        self._stage = ""

    def account(self, game: DuelGame, state: Record, read: dict[str, object]) -> None:
        """See `Episode.account`: only the stage is taken down."""
        del game, state
        stage = read.get("game.stage")
        self._stage = "" if stage is None else STAGES[int(stage)]  # type: ignore[call-overload]

    def verdict(self, state: Record) -> Verdict:
        """See `Episode.verdict`: by what the game shows, or by the health of both."""
        if self._stage in ("won", "lost"):
            return "won" if self._stage == "won" else "lost"
        if state.player_hp <= 0.0:
            return "lost"
        return "won" if state.boss_hp <= self._goal_hp else ""

    def _begin(
        self, game: DuelGame, rng: np.random.Generator, seed: int | None, deadline: Deadline, is_fresh: bool
    ) -> None:
        if game.has("fight.next_seed") and (seed is not None or is_fresh):
            game.write({"fight.next_seed": int(rng.integers(SEEDS)) if seed is None else seed})
        if RESTART_KEY in game.profile.keys:
            self.log.n_respawns += 1
            reach(game, ask_states(game, fight_number(game)), deadline)
        elif self._is_over(game):
            reach(game, end_states(game), deadline)
        else:
            if not is_fresh:
                self._runner.restart(game, deadline)
            reach(game, (load_state(game),), deadline)

    def _is_over(self, game: DuelGame) -> bool:
        try:
            return stage_of(game.read(*(name for name in FIGHT if game.has(name)))) != "fighting"
        except LOADING:
            return True
