"""Health that is given back, so that a fight goes on: for collecting data, for first lessons, for long evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gymnasium.utils import RecordConstructorArgs

from soulslab.envs.wrappers.duel_source import check_knows, duel_of, game_of
from soulslab.envs.wrappers.extended_observation import Env, Wrapper
from soulslab.errors import EnvironmentUsageError, did_you_mean

REFUNDS = ("hit", "time", "phase")
FIGHTERS = ("player", "boss")


class HealthRefund(Wrapper, RecordConstructorArgs):
    """Gives lost health back, in the game itself.

    The step's observation and reward still have the loss; the refund shows from the next one on, and brings no reward.
    ``info["refund"]`` has what each fighter lost in the step and was given after it, in hit points:
    ``player_lost``, ``player_given``, ``boss_lost``, ``boss_given``.

    - ``when="hit"``: after each step with a loss, ``share`` of the loss (1: all of it).
    - ``when="time"``: after each step, ``share`` of full health per second of game time, up to full.
    - ``when="phase"``: when the fight's second phase begins, ``share`` of what is missing.

    What kills at once kills; with ``keeps_alive`` the game is told that the player cannot die (which a game may not
    know: then this is an error), so that even such a blow is given back.

    Args:
        env: A duel in a running game that counts health itself (``episodes="demo"``).
        of: Whose: ``"player"``, ``"boss"``.
        when: See above.
        share: See above; from 0 to 1 but for ``"time"``.
        keeps_alive: See above.

    Raises:
        EnvironmentUsageError: An option is wrong, or nothing can be written there.
    """

    def __init__(
        self,
        env: Env,
        of: Sequence[str] = ("player",),
        when: str = "hit",
        share: float = 1.0,
        keeps_alive: bool = False,
    ) -> None:
        RecordConstructorArgs.__init__(self, of=of, when=when, share=share, keeps_alive=keeps_alive)
        super().__init__(env)
        _check(of, when, share)
        self._of, self._when, self._share, self._keeps_alive = tuple(of), when, share, keeps_alive
        self._duel = duel_of(env, "HealthRefund")
        self._game = game_of(env, "HealthRefund")
        if getattr(getattr(env.unwrapped, "options", None), "episodes", "") == "in_place":
            raise EnvironmentUsageError(
                "HealthRefund: with episodes='in_place' the game's health is kept full and losses are counted by the "
                "environment; use episodes='demo'"
            )
        self._hp: dict[str, float] = {}
        self._phase = 1
        self._time_s = 0.0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """See `gymnasium.Env.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        check_knows(self._game, "HealthRefund", *(f"{who}.hp" for who in self._of))
        if self._keeps_alive:
            check_knows(self._game, "HealthRefund(keeps_alive=True)", "player.no_death")
            self._game.write_quantities({"player.no_death": True})
        self._note()
        self._time_s = float(info["game_time_s"])
        return observation, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See `gymnasium.Env.step`."""
        hp, phase = dict(self._hp), self._phase
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._note()
        passed_s, self._time_s = info["game_time_s"] - self._time_s, info["game_time_s"]
        lost = {who: max(hp[who] - self._hp[who], 0.0) for who in FIGHTERS}
        given = dict.fromkeys(FIGHTERS, 0.0)
        if not (terminated or truncated):
            has_new_phase = self._phase > phase
            given |= {who: self._due(who, lost[who], passed_s, has_new_phase) for who in self._of}
        wanted = {f"{who}.hp": self._hp[who] + given[who] for who in self._of if given[who] > 0.0}
        if wanted:
            self._game.write_quantities(wanted)
            self._hp |= {name.removesuffix(".hp"): value for name, value in wanted.items()}
        refund = {f"{who}_lost": lost[who] for who in FIGHTERS} | {f"{who}_given": given[who] for who in FIGHTERS}
        return observation, reward, terminated, truncated, {**info, "refund": refund}

    def close(self) -> None:
        """Let the player die again, and close the environment."""
        keeps_alive, self._keeps_alive = self._keeps_alive, False
        try:
            if keeps_alive and self._hp:
                self._game.write_quantities({"player.no_death": False})
        finally:
            super().close()

    def _note(self) -> None:
        state = self._duel.duel_state
        self._hp = {who: float(state[f"{who}_hp"]) for who in FIGHTERS}
        self._full = {who: float(state[f"{who}_max_hp"]) for who in FIGHTERS}
        self._phase = int(state.phase)

    def _due(self, who: str, lost: float, passed_s: float, has_new_phase: bool) -> float:
        """Return what a fighter is given now."""
        missing = self._full[who] - self._hp[who]
        due = {
            "hit": self._share * lost,
            "time": self._share * self._full[who] * passed_s,
            "phase": self._share * missing * has_new_phase,
        }
        return float(min(due[self._when], missing))


def _check(of: Sequence[str], when: str, share: float) -> None:
    if isinstance(of, str) or not of or any(who not in FIGHTERS for who in of):
        raise EnvironmentUsageError(f"HealthRefund: of must be a list of some of {FIGHTERS}, not {of!r}")
    if when not in REFUNDS:
        raise EnvironmentUsageError(f"HealthRefund: when: unknown {when!r}{did_you_mean(str(when), REFUNDS)}")
    if not share >= 0.0 or (when != "time" and share > 1.0):
        raise EnvironmentUsageError(f"HealthRefund: share must be from 0 to 1, not {share!r}")
