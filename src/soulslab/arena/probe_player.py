"""The probing player: a script that plays to show how a boss fights, and that knows nothing about the boss.

It plays the fights from which a boss is fitted. It reads only the state of the duel, as every game shows it. It learns
from its own fights at which times each animation hits, and how far its own attacks reach. It answers each attack of the
boss in a way that it draws: it goes to where its reach may end, walks aside from it, passes the boss, stands still,
walks, parries, or rolls early, late or in time. Between attacks it keeps a distance and a side, stays at the back of
the boss, or attacks as often as it can; this changes every few seconds. With little health it only rolls in time and
strikes when the boss cannot hit, so that it survives to see the second phase.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from soulslab.arena.boss_rules import PARRY_STUN, STAGGER
from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import DECISION_S, Record, Table
from soulslab.arena.vocabulary import (
    BOSS_ATTACKS,
    FIRST_ROLL,
    HEAVY_ATTACK,
    LIGHT_ATTACK,
    N_DIRECTIONS,
    NOTHING,
    PARRY,
    UNKNOWN_ANIMATION,
)

Response: TypeAlias = Literal["roll", "edge", "aside", "stand", "walk", "parry"]

FORWARD, RIGHT, BACKWARD, LEFT = 0, 2, 4, 6
#: Responses to an attack, and their relative frequencies if the player has enough health; those to measure the reach
#: and the arc of an attack become rare when both are known.
CURIOUS: Final[dict[Response, float]] = {
    "roll": 0.25,
    "edge": 0.4,
    "aside": 0.3,
    "stand": 0.05,
    "walk": 0.1,
    "parry": 0.1,
}
RARE: Final = 0.05
#: Width of the edge of a reach that is known well enough (m), and number of attempts to walk aside that suffice.
NARROW_M: Final = 0.3
N_ASIDE: Final = 10
#: Share of its health below which the player only rolls.
CAREFUL_SHARE: Final = 0.5
#: Time before a blow at which it rolls in time, and the range from which the times of the other rolls are drawn (s).
ROLL_LEAD_S: Final = 0.17
LEADS_S: Final = (-0.1, 0.45)
#: Share of the rolls with another time and direction; the others pass the boss on one side.
VARIED_SHARE: Final = 0.5
SAFE_ROLLS: Final = (1, 7)
#: Blows of an animation that are closer together than this are one blow (s).
SAME_BLOW_S: Final = 0.4
#: Farther than the farthest hit of a blow by this much, the player looks for its reach if no miss is known (m).
BEYOND_M: Final = 1.2
#: Distance and time of a roll: it rolls back to the edge of a reach if both are left.
ROLL_M: Final = 2.5
ROLL_S: Final = 0.75
#: Time before a blow from which it walks aside, so that a narrow arc misses it.
ASIDE_S: Final = 0.5
#: Probability that it rolls past the boss instead, so that a wide arc misses it, and the time before a blow for that.
PASS_PROBABILITY: Final = 0.5
PASS_S: Final = (0.55, 0.85)
#: Probability that it stays at the back of the boss, so that it sees the attacks that the boss chooses against a player
#: there, and whether the others hit there.
FLANK_PROBABILITY: Final = 0.2
#: Distance that it keeps there (m), and the cosine of the bearing from which it is there.
FLANK_M: Final = 1.2
BEHIND_COS: Final = -0.7
#: Distances between the centres that the player keeps, from which one is drawn every few seconds (m).
DISTANCES_M: Final = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.5, 9.0, 12.0, 16.0, 20.0)
#: Distance from which it flees with rolls, and the share of the fights that it begins at the greatest distance.
FAR_M: Final = 7.5
FAR_START_SHARE: Final = 0.7
#: Probability that it attacks as often as it can, instead of keeping a distance.
PRESS_PROBABILITY: Final = 0.4
KEEP_S: Final = (1.5, 6.0)
#: The same for the distances from which it flees: getting there takes time.
KEEP_FAR_S: Final = (5.0, 10.0)
#: Farthest that it walks from the place at which the fight began, because the edge of the ground is unknown.
ROAM_M: Final = 16.0
ENOUGH_SP: Final = 38.0
#: Time until a light and a heavy attack have hit, with some reserve (s).
STRIKE_S: Final = 0.75
HEAVY_STRIKE_S: Final = 1.5
#: Probability that its attacks are heavy for some time, so that they may stagger the boss.
HEAVY_PROBABILITY: Final = 0.4


_KNIGHT = load_knight()
#: Numbers of the player's animations that begin with a hit.
_KNOCK_BACKS = frozenset(_KNIGHT.number(one.animation) for one in _KNIGHT.knock_backs.values())


class _Knowledge:
    """Knowledge from the fights so far.

    Attributes:
        blows: Times at which each animation has hit, in order.
        lengths: Longest time for which each animation was seen.
        reach_m: Distance within which the player's own attacks hit.
        edges_m: Greatest distance of a hit, and least one of a miss beyond it, by animation and time of the blow.
        n_aside: How often the player walked aside from each animation.
    """

    def __init__(self) -> None:
        self.blows: dict[int, list[float]] = {}
        self.lengths: dict[int, float] = {}
        self.reach_m = 2.6
        self.edges_m: dict[tuple[int, float], tuple[float, float]] = {}
        self.n_aside: dict[int, int] = {}

    def add_hit(self, animation: int, time_s: float, distance_m: float) -> None:
        """Learn that an animation has hit at a time and a distance."""
        self._add_time(animation, time_s)
        key = self._blow(animation, time_s)
        farthest, nearest = self.edges_m.get(key, (0.0, math.inf))
        farthest = max(farthest, distance_m)
        self.edges_m[key] = (farthest, nearest if nearest > farthest else math.inf)

    def add_misses(self, animation: int, span_s: tuple[float, float], distance_m: float) -> None:
        """Learn that an animation has not hit in a span of its time, although the player was open."""
        for blow_s in self.blows.get(animation, ()):
            if span_s[0] < blow_s <= span_s[1]:
                key = self._blow(animation, blow_s)
                farthest, nearest = self.edges_m.get(key, (0.0, math.inf))
                if distance_m > farthest:
                    self.edges_m[key] = (farthest, min(nearest, distance_m))

    def edge_m(self, animation: int, now_s: float) -> float:
        """Return the distance at which it is least known whether the next blow hits."""
        key = self._blow(animation, now_s + self.next_blow_s(animation, now_s))
        farthest, nearest = self.edges_m.get(key, (0.0, math.inf))
        return (farthest + nearest) / 2 if nearest < math.inf else farthest + BEYOND_M

    def farthest_m(self, animation: int, now_s: float) -> float:
        """Return the greatest distance at which the next blow has hit."""
        key = self._blow(animation, now_s + self.next_blow_s(animation, now_s))
        return self.edges_m.get(key, (0.0, math.inf))[0]

    def frequencies(self, animation: int) -> dict[Response, float]:
        """Return the relative frequency of each response to an attack."""
        edges = [self.edges_m[animation, blow_s] for blow_s in self.blows.get(animation, ())]
        frequencies = dict(CURIOUS)
        if all(nearest - farthest < NARROW_M for farthest, nearest in edges):
            frequencies["edge"] = RARE
        if self.n_aside.get(animation, 0) >= N_ASIDE:
            frequencies["aside"] = RARE
        return frequencies

    def _blow(self, animation: int, time_s: float) -> tuple[int, float]:
        """Return the key of the blow of an animation that is nearest to a time."""
        return animation, min(self.blows[animation], key=lambda blow_s: abs(blow_s - time_s))

    def _add_time(self, animation: int, time_s: float) -> None:
        blows = self.blows.setdefault(animation, [])
        for i, known_s in enumerate(blows):
            if abs(known_s - time_s) < SAME_BLOW_S:
                blows[i] = min(known_s, time_s)
                self.edges_m[animation, blows[i]] = self.edges_m.pop((animation, known_s))
                return
        blows.append(time_s)
        blows.sort()
        self.edges_m[animation, time_s] = (0.0, math.inf)

    def next_blow_s(self, animation: int, now_s: float) -> float:
        """Return the time until the next known blow; infinity if none is known."""
        return min((blow - now_s for blow in self.blows.get(animation, ()) if blow > now_s - 0.05), default=math.inf)

    def open_s(self, animation: int, now_s: float) -> float:
        """Return for how long the boss cannot hit now, as far as known."""
        blows = self.blows.get(animation)
        if not blows:
            return 0.0
        next_s = self.next_blow_s(animation, now_s)
        return next_s if next_s < math.inf else self.lengths.get(animation, 0.0) - now_s


class _Fight:
    """One fight of the probing player."""

    def __init__(self, knowledge: _Knowledge, rng: np.random.Generator) -> None:
        self._known = knowledge
        self._rng = rng
        self.begin(None)

    def begin(self, state: Record) -> None:
        """Begin a new fight in a state; None before the first one."""
        self._animation, self._time_s = UNKNOWN_ANIMATION, 0.0
        self._boss_hp = float(state.boss_hp) if state is not None else 0.0
        self._home = (float(state.boss_pose[0]), float(state.boss_pose[1])) if state is not None else (0.0, 0.0)
        self._keep_left_s = 0.0
        self._health_share = 1.0
        self._last_m = math.inf
        self._strike_left_s, self._strike_from_m = -1.0, 0.0
        self._flanks = self._is_behind = False
        self._keep()
        if self._rng.random() < FAR_START_SHARE:
            self._presses = self._flanks = False
            self._distance_m, self._keep_left_s = max(DISTANCES_M), max(KEEP_FAR_S)
        self._new_response(UNKNOWN_ANIMATION)

    def act(self, state: Record, mask: NDArray[np.bool_]) -> int:
        """Choose an action."""
        player, boss = state.player_pose, state.boss_pose
        distance = math.hypot(boss[0] - player[0], boss[1] - player[1])
        self._observe(state, distance, is_open=bool(mask[FORWARD]))
        self._keep_left_s -= DECISION_S
        if self._keep_left_s <= 0.0:
            self._keep()
        animation, now_s = self._animation, self._time_s
        is_attack = animation < len(BOSS_ATTACKS)
        if is_attack:
            action = self._respond(mask, self._known.next_blow_s(animation, now_s), distance)
            if action is not None:
                return action
        is_helpless = animation in (STAGGER, PARRY_STUN)
        if self._flanks and not is_helpless and self._health_share > CAREFUL_SHARE:
            return self._flank(mask, distance, has_stamina=float(state.player_sp) >= ENOUGH_SP)
        strike, strike_s = (HEAVY_ATTACK, HEAVY_STRIKE_S) if self._is_heavy else (LIGHT_ATTACK, STRIKE_S)
        is_open = is_helpless or (is_attack and self._known.open_s(animation, now_s) >= strike_s)
        is_pressing = self._presses and self._health_share > CAREFUL_SHARE
        if (is_open or is_pressing) and mask[strike] and float(state.player_sp) >= ENOUGH_SP:
            if distance <= self._known.reach_m:
                self._strike_left_s, self._strike_from_m = strike_s, distance
                return strike
            # A player that keeps far away uses the time to get there.
            if is_pressing or (not self._is_far and distance <= self._known.reach_m + 3.0):
                return FORWARD
        if not mask[FORWARD]:
            return NOTHING
        way = self._move(player, distance)
        # The boss runs as fast as the player rolls, and faster than it walks.
        is_fleeing = way == BACKWARD and self._is_far and float(state.player_sp) >= ENOUGH_SP
        return FIRST_ROLL + BACKWARD if is_fleeing and mask[FIRST_ROLL] else way

    def _observe(self, state: Record, distance: float, *, is_open: bool) -> None:
        """Learn from what has happened since the last decision; an open player can walk, so a blow would have hit."""
        animation, now_s = int(state.boss_animation), float(state.boss_animation_duration)
        boss_hp = float(state.boss_hp)
        if animation != self._animation or now_s < self._time_s:
            self._new_response(animation)
        elif animation < len(BOSS_ATTACKS):
            lengths = self._known.lengths
            lengths[animation] = max(lengths.get(animation, 0.0), now_s)
            # The animation of a knock-back begins with the hit. Its health may have been restored meanwhile.
            hurt_s = float(state.player_animation_duration)
            if int(state.player_animation) in _KNOCK_BACKS and hurt_s < DECISION_S:
                self._known.add_hit(animation, now_s - hurt_s, self._last_m)
            elif is_open:
                self._known.add_misses(animation, (self._time_s, now_s), distance)
        if self._strike_left_s > 0.0:
            self._strike_left_s -= DECISION_S
            if boss_hp < self._boss_hp:
                self._known.reach_m = max(self._known.reach_m, self._strike_from_m + 0.1)
                self._strike_left_s = -1.0
            elif self._strike_left_s <= 0.0:
                self._known.reach_m = max(self._known.reach_m - 0.03, 1.5)
        player, boss, angle = state.player_pose, state.boss_pose, float(state.boss_pose[3])
        ahead_m = -math.sin(angle) * (player[0] - boss[0]) - math.cos(angle) * (player[1] - boss[1])
        self._is_behind = bool(ahead_m < BEHIND_COS * distance)
        self._health_share = float(state.player_hp) / max(float(state.player_max_hp), 1.0)
        self._animation, self._time_s, self._boss_hp, self._last_m = animation, now_s, boss_hp, distance

    def _new_response(self, animation: int) -> None:
        """Draw the response to the attack that begins now."""
        rng = self._rng
        self._response: Response = "roll"
        # A player that flees must not be hit on its way.
        is_curious = self._health_share > CAREFUL_SHARE and not (self._is_far and self._last_m < FAR_M)
        if is_curious:
            frequencies = self._known.frequencies(animation)
            shares = np.array(list(frequencies.values()))
            drawn = list(frequencies)[int(rng.choice(len(shares), p=shares / shares.sum()))]
            self._response = "aside" if self._flanks else drawn
            if drawn == "aside":
                self._known.n_aside[animation] = self._known.n_aside.get(animation, 0) + 1
        is_varied = is_curious and rng.random() < VARIED_SHARE
        self._aside = int(rng.choice((LEFT, RIGHT)))
        self._passes = bool(rng.random() < PASS_PROBABILITY) or self._flanks
        self._lead_s = rng.uniform(*LEADS_S) if is_varied else ROLL_LEAD_S
        self._roll_way = int(rng.integers(N_DIRECTIONS) if is_varied else rng.choice(SAFE_ROLLS))

    def _respond(self, mask: NDArray[np.bool_], blow_s: float, distance: float) -> int | None:
        """Return the action against the next known blow, or None if there is time for something else."""
        if self._response == "roll":
            if blow_s <= self._lead_s + DECISION_S / 2:
                return FIRST_ROLL + self._roll_way if mask[FIRST_ROLL] else NOTHING
            return NOTHING if blow_s < STRIKE_S else None
        if self._response == "parry" and blow_s <= 2 * DECISION_S:
            return PARRY if mask[PARRY] else NOTHING
        if self._response in ("edge", "aside") and blow_s < math.inf:
            return self._measure(mask, blow_s, distance)
        if self._response == "stand" and blow_s < math.inf:
            return NOTHING
        return None

    def _measure(self, mask: NDArray[np.bool_], blow_s: float, distance: float) -> int:
        """Return a step to where it is least known whether the next blow hits: to the end of its reach, or aside."""
        known, animation, now_s = self._known, self._animation, self._time_s
        if self._response == "edge":
            missing_m = known.edge_m(animation, now_s) - distance
            if missing_m > ROLL_M and blow_s > ROLL_S and mask[FIRST_ROLL]:
                return FIRST_ROLL + BACKWARD
            way = BACKWARD if missing_m > 0.0 else FORWARD
        elif self._passes and not self._is_behind and blow_s > PASS_S[0]:
            # A roll to the front passes the boss on one side, and ends before the blow.
            way = FIRST_ROLL + SAFE_ROLLS[self._aside == LEFT] if blow_s <= PASS_S[1] else FORWARD
        elif distance > known.farthest_m(animation, now_s):
            way = FORWARD
        else:
            way = self._aside if blow_s < ASIDE_S else NOTHING
        return way if mask[way] else NOTHING

    def _keep(self) -> None:
        """Draw the distance and the side that the player keeps for some time."""
        rng = self._rng
        self._keep_left_s = rng.uniform(*KEEP_S)
        self._presses = bool(rng.random() < PRESS_PROBABILITY)
        self._is_heavy = bool(rng.random() < HEAVY_PROBABILITY)
        self._distance_m = float(rng.choice(DISTANCES_M))
        self._side = int(rng.choice((LEFT, RIGHT, NOTHING)))
        self._flanks = bool(rng.random() < FLANK_PROBABILITY)
        if self._flanks:
            self._presses, self._distance_m = False, FLANK_M
            self._side = int(rng.choice((LEFT, RIGHT)))
        if self._is_far:
            self._keep_left_s = rng.uniform(*KEEP_FAR_S)

    @property
    def _is_far(self) -> bool:
        """Whether it keeps a distance from which it flees."""
        return self._distance_m >= FAR_M and not self._presses

    def _flank(self, mask: NDArray[np.bool_], distance: float, *, has_stamina: bool) -> int:
        """Return a step to the back of the boss: round it, or with a roll past it."""
        if distance <= FLANK_M + 0.4:
            return NOTHING if self._is_behind else self._side
        past = FIRST_ROLL + SAFE_ROLLS[self._side == LEFT]
        rolls = distance < ROLL_M and not self._is_behind and has_stamina
        return past if rolls and mask[past] else FORWARD

    def _move(self, player: NDArray[np.float64], distance: float) -> int:
        """Return a step that keeps the distance, or circles at it."""
        if distance > self._distance_m + 0.4:
            return FORWARD
        is_far = math.hypot(player[0] - self._home[0], player[1] - self._home[1]) > ROAM_M
        if distance < self._distance_m - 0.4 and not is_far:
            return BACKWARD
        return FORWARD if is_far and distance > 2.0 else self._side


class ProbePlayer:
    """Plays N fights in parallel, and learns from all of them.

    Args:
        n_duels: N.
        seed: Seed of its random choices.
    """

    def __init__(self, n_duels: int, seed: int = 0) -> None:
        self._known = _Knowledge()
        rngs = np.random.default_rng(seed).spawn(n_duels)
        self._fights = [_Fight(self._known, rng) for rng in rngs]

    @property
    def blows(self) -> dict[int, list[float]]:
        """Times (s) at which each animation, by its number, has hit the player so far."""
        return self._known.blows

    def begin(self, states: Sequence[Record] | Table, which: NDArray[np.bool_]) -> None:
        """Observe the fights that are new: those of the (N,) `DUEL_STATE` records that are set in ``which`` (N,)."""
        for i in np.flatnonzero(which).tolist():
            self._fights[i].begin(_plain(states[i]))

    def act(
        self, states: Sequence[Record] | Table, masks: Sequence[NDArray[np.bool_]] | NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Choose an action for each fight, (N,) int64, from (N,) `DUEL_STATE` records and (N, A) action masks."""
        choices = []
        for fight, state, mask in zip(self._fights, states, masks, strict=True):
            action = fight.act(_plain(state), mask)
            choices.append(action if mask[action] else NOTHING)
        return np.array(choices, np.int64)


_DuelState = namedtuple("_DuelState", DUEL_STATE.names or ())  # type: ignore[misc]


def _plain(state: Record) -> Record:
    """Return the fields of a record, which are read ten times faster there; poses remain views of the record."""
    return _DuelState._make(state.item())
