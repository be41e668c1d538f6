"""Playing a duel decision by decision: keys into the game, and what is seen of it out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.records import Record
from soulslab.arena.vocabulary import N_ACTIONS
from soulslab.envs.live.actions import Keys, keys_of
from soulslab.envs.live.duel_game import DuelGame
from soulslab.envs.live.episode import Episode, Verdict
from soulslab.envs.live.masks import Freedom, Locks, is_falling
from soulslab.envs.live.reader import DuelReader
from soulslab.envs.live.scenario import Scenario
from soulslab.envs.live.terms import nearest_pose
from soulslab.envs.live.timing import Look, Timing
from soulslab.errors import EnvironmentUsageError, SiphonError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.session import LOADING, Step, StepResult


class DuelPlay:
    """A duel as it is played.

    Args:
        game: The game by quantities.
        scenario: The boss and its place.
        episode: Begins and ends episodes.
        timing: When keys go down and when the game is looked at.
        frame: Picture to take with each look; None for none.
        is_late_frame: Leave the picture out of the looks until `see`, for a game that stands where several decisions
            make a step: only the last of their pictures would be seen.

    Attributes:
        game: See above.
        episode: See above.
        timing: See above.
        open: (20,) bool, which actions are open.
        freedom: The same in short.
        verdict: Whether and how the fight is over.
        picture: What was seen with the last look.
        late_s: By how much that was late, in wall time.
        grade: Of game time; "" before the first episode.

    Raises:
        ProfileError: The profile does not say where to find a duel, or lacks a key.
    """

    def __init__(
        self,
        game: DuelGame,
        scenario: Scenario,
        episode: Episode,
        timing: Timing,
        frame: FrameFormat | None,
        *,
        is_late_frame: bool = False,
    ) -> None:
        self.game, self.episode, self.timing = game, episode, timing
        self._scenario = scenario
        self._reader = DuelReader(game.binding, scenario, game.source)
        self._locks = Locks()
        self._keys = tuple(keys_of(action, game.profile.keys, game.source) for action in range(N_ACTIONS))
        bound = game.binding.attributes
        wanted = dict.fromkeys((*self._reader.quantities, *episode.quantities, *game.frame_quantities))
        self._quantities = [(quantity, bound[quantity]) for quantity in wanted if quantity in bound]
        game.looked_at = tuple(quantity for quantity, _ in self._quantities)
        self._late_frame = frame if is_late_frame else None
        self._look = Look(tuple(name for _, name in self._quantities), None if is_late_frame else frame)
        self.open = np.ones(N_ACTIONS, np.bool_)
        self.freedom = Freedom(True, True, True)
        self.verdict: Verdict = ""
        self.picture: NDArray[np.uint8] | None = None
        self.late_s = 0.0
        self.grade = ""
        self._start_s = self._now_s = 0.0

    @property
    def state(self) -> Record:
        """`DUEL_STATE` record of the last look, overwritten by the next one."""
        return self._reader.state

    @property
    def boss_animation(self) -> str:
        """Name of the boss's animation."""
        return self._reader.boss_animation

    @property
    def is_falling(self) -> bool:
        """Whether the player falls."""
        return is_falling(self._reader.player_animation)

    @property
    def tick(self) -> int:
        """The game's count of ticks; -1 if it has none."""
        return self._reader.tick

    @property
    def game_time_s(self) -> float:
        """Game time of the episode."""
        # Whole nanoseconds are not alike in two episodes, where a tick is none: 1/60 s.
        return round(self._now_s - self._start_s, 6)

    def begin(self) -> None:
        """Look at the game at the start of an episode, with no key down.

        Raises:
            SiphonError: It cannot be looked at.
            EnvironmentUsageError: It fights another boss than the scenario's.
        """
        with self._noting_loss():
            session = self.game.session
            self._refuse_others()
            self._reader.begin(self.episode.start_phase, self.game.vitals(self._scenario))
            self.timing.begin(session)
            result = session.step(Step(held=(), attributes=self._look.attributes, frame=self._look.frame))
            self.grade = session.info.clock_grade
            self.late_s = 0.0
            self._start_s = result.snapshot.game_time_s
            self._take(result)
        self.see()

    def start_pose(self, *, is_random: bool) -> int:
        """Return the number of the pose that the episode began with; -1 for the fixed one."""
        number = self.episode.start_pose
        return nearest_pose(self._scenario, self.state) if number < 0 and is_random else number

    def decide(self, action: int) -> int:
        """Play a decision with one of the 20 actions; return how many are open after it. Raises as `Session.step`."""
        try:
            result, self.late_s = self.timing.play(self.game.session, self._keys_of(action), self._look)
            return self._take(result)
        except LOADING:
            raise  # a game that loads comes round by itself, and the next reset waits for it
        except SiphonError:
            self.game.holder.is_lost = True
            raise

    def see(self) -> None:
        """Take the picture that the looks left out. Raises as `Session.capture`."""
        if self._late_frame is not None:
            with self._noting_loss():
                self.picture = self.game.session.capture(self._late_frame).pixels

    def write(self, values: Mapping[str, Any], *, has_real_health: bool) -> None:
        """Write quantities to the game and take them for given; see `DuelReader.note`. Raises as `Session.write`."""
        with self._noting_loss():
            self.game.write(values)
        self._reader.note(values, has_real_health=has_real_health)

    @contextmanager
    def _noting_loss(self) -> Iterator[None]:
        """Note that the game has to be brought back if something fails."""
        try:
            yield
        except SiphonError:
            self.game.holder.is_lost = True
            raise

    def _take(self, result: StepResult) -> int:
        """Take in what was seen; return how many of the 20 actions are open."""
        snapshot, binding, reader = result.snapshot, self.game.binding, self._reader
        read = {quantity: binding.decode(quantity, snapshot[name]) for quantity, name in self._quantities}
        read = self.game.in_frame(read)
        reader.take(read, snapshot.game_time_s)
        self.episode.account(self.game, reader.state, read)
        self.verdict = self.episode.verdict(reader.state)
        self.freedom = self._locks.freedom(reader.player_animation, reader.player_s, read["player.sp"])
        self._now_s = snapshot.game_time_s
        self.picture = None if result.frame is None else result.frame.pixels
        return self.freedom.write(self.open)

    def _keys_of(self, action: int) -> Keys:
        """Return the keys of an action, with those that the episode itself wants pressed."""
        keys, buttons = self._keys[action], self.episode.presses
        if not buttons:
            return keys
        extra = self.game.keys(buttons)
        return Keys((*keys.held, *extra), (*keys.again, *extra))

    def _refuse_others(self) -> None:
        """Raise `EnvironmentUsageError` if the game has other full health than the scenario."""
        wanted = {"player.max_hp": self._scenario.player_max_hp, "boss.max_hp": self._scenario.boss_max_hp}
        found = self.game.read(*(name for name in wanted if self.game.has(name)))
        for name, value in found.items():
            if wanted[name] is not None and round(value) != wanted[name]:
                raise EnvironmentUsageError(
                    f"{name} is {value:g} in the game, but {wanted[name]} against {self._scenario.name}: the game "
                    f"fights another boss, or with another character; play with the one that is meant, or give a file "
                    f"of a boss that has this number (docs/bosses.md)"
                )
