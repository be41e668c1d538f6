"""From what was read of a game to the state of a duel: names to numbers, and what has to be followed over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from soulslab.arena.binding import Binding
from soulslab.arena.duel_state import DUEL_STATE, MAX_ANIMATION_S
from soulslab.arena.features import BOSS_BIN, BOSS_BINS, CAMERA_BACK_M, CAMERA_COS, CAMERA_SIN, CAMERA_UP_M
from soulslab.arena.geometry import direction
from soulslab.arena.knight_file import load_knight
from soulslab.arena.records import Record
from soulslab.arena.vocabulary import BOSS_ANIMATIONS, UNKNOWN_ANIMATION
from soulslab.envs.tasks.duel.duel_scenario import Scenario, Vitals
from soulslab.errors import ProfileError
from soulslab.games.dark_souls_3.named_animations import true_name

#: Without these there is no duel.
NEEDED = (
    "player.hp",
    "player.sp",
    "player.position",
    "player.angle",
    "player.animation",
    "boss.hp",
    "boss.position",
    "boss.angle",
    "boss.animation",
)
#: What takes the place of these is told at `DuelReader`.
WANTED = (
    "player.animation_time",
    "boss.animation_time",
    "camera.position",
    "camera.direction",
    "lock_on",
    "phase",
    "game.tick",
)
#: What tells attacks that go on from names that linger (`soulslab.games.dark_souls_3.named_animations`).
LINGERING = ("boss.animation_length", "boss.animation_time", "boss.attack_id", "boss.next_attack_id")

_PLAYER_NUMBERS = {name: number for number, name in enumerate(load_knight().animations)}
_BOSS_NUMBERS = {name: number for number, name in enumerate(BOSS_ANIMATIONS)}
#: Walks and turns share a bin, whose time runs on from one to the next (`soulslab.arena.features`).
_STROLLS = frozenset(name for name, bin_ in zip(BOSS_ANIMATIONS, BOSS_BIN, strict=True) if BOSS_BINS[bin_] == "Walk")


class DuelReader:
    """Keeps the state of a duel up with what is read.

    Where a game does not tell: the time of an animation counts from when it was first seen; the camera hangs behind
    the player and looks at the boss, locked on; the second phase begins when the scenario's animation is over. Names of
    the boss's animations that linger are resolved where the game also tells its attacks by number.

    The time of the boss's walks and turns in a row can be off, as what it did between two looks is not seen: over 120
    fights of the built-in bosses it was in 1.2 % of the looks, by 0.1 s or more in 0.2 %.

    Args:
        binding: Which attribute holds which quantity.
        scenario: The boss and its place.
        source: The profile's file, for errors.

    Attributes:
        quantities: What it reads.
        state: `DUEL_STATE` record, overwritten by `take`.
        player_animation: Its name.
        player_s: How long it lasts.
        boss_animation: Its name.
        tick: Of the game; -1 if it does not tell.

    Raises:
        ProfileError: The profile does not say where to find what a duel needs.
    """

    def __init__(self, binding: Binding, scenario: Scenario, source: str = "") -> None:
        for quantity in NEEDED:
            if not binding.has(quantity):
                raise ProfileError(
                    f"quantity {quantity!r} is missing; a duel cannot do without", path="duel.attributes", source=source
                )
        self._has_attack_ids = binding.has(*LINGERING)
        wanted = (*WANTED, *LINGERING) if self._has_attack_ids else WANTED
        self.quantities = tuple(dict.fromkeys((*NEEDED, *(quantity for quantity in wanted if binding.has(quantity)))))
        self._known = frozenset(self.quantities)
        self._scenario = scenario
        self._states = np.zeros(1, DUEL_STATE)
        self.state: Record = self._states[0]
        # Written through views of its fields, which takes a tenth of the time that the record itself does.
        self._columns = {name: self._states[name] for name in DUEL_STATE.names or ()}
        self._player, self._boss, self._camera = (
            self._columns[f"{who}_pose"][0] for who in ("player", "boss", "camera")
        )
        self.player_animation = self.boss_animation = ""
        self.player_s = 0.0
        self.tick = -1
        self._player_clock = _AnimationClock("player.animation_time" in self._known)
        self._boss_clock = _AnimationClock("boss.animation_time" in self._known)
        self.begin(1, Vitals(scenario.player_max_hp or 1, scenario.player_max_sp or 1))

    def begin(self, first_phase: int, vitals: Vitals) -> None:
        """Forget what came before: an episode begins, in this phase (where the game does not tell it).

        Args:
            first_phase: Of the episode.
            vitals: The player's full health and stamina.
        """
        s = self.state
        s.player_max_hp, s.player_max_sp = vitals.hp, vitals.sp
        s.boss_max_hp = self._scenario.boss_max_hp
        s.phase, s.lock_on = first_phase, 1
        self._is_changing = False
        self._stroll_s = 0.0
        self._last_s: float | None = None
        self._was_strolling = False
        self._player_clock.begin()
        self._boss_clock.begin()

    def take(self, read: Mapping[str, Any], game_time_s: float) -> None:
        """Bring a reading into the state.

        Args:
            read: Value of each of `quantities`.
            game_time_s: When it was read.
        """
        to = self._columns
        to["player_hp"][0], to["player_sp"][0] = read["player.hp"], read["player.sp"]
        to["boss_hp"][0] = read["boss.hp"]
        self._player[:3], self._player[3] = read["player.position"], read["player.angle"]
        self._boss[:3], self._boss[3] = read["boss.position"], read["boss.angle"]
        if "lock_on" in self._known:
            to["lock_on"][0] = read["lock_on"]
        if "game.tick" in self._known:
            self.tick = int(read["game.tick"])
        self._take_camera(read)
        player, boss = read["player.animation"], self._boss_name(read)
        player_s = self._player_clock.time_s(player, read.get("player.animation_time"), game_time_s)
        boss_s = self._boss_clock.time_s(boss, read.get("boss.animation_time"), game_time_s)
        self._take_phase(read, boss)
        self.player_animation, self.boss_animation = player, boss
        self.player_s = player_s
        to["player_animation"][0] = _PLAYER_NUMBERS.get(player, UNKNOWN_ANIMATION)
        to["boss_animation"][0] = _BOSS_NUMBERS.get(boss, UNKNOWN_ANIMATION)
        to["player_animation_duration"][0] = min(player_s, MAX_ANIMATION_S)
        to["boss_animation_duration"][0] = min(boss_s, MAX_ANIMATION_S)
        to["boss_bin_duration"][0] = min(self._bin_s(boss, boss_s, game_time_s), MAX_ANIMATION_S)

    def note(self, written: Mapping[str, Any], *, has_real_health: bool) -> None:
        """Bring what was written to the game into the state.

        Args:
            written: Quantities.
            has_real_health: The state's health is the game's, not counted by the episode.
        """
        s = self.state
        for name, value in written.items():
            if name in ("player.position", "boss.position"):
                s[f"{name[:-9]}_pose"][:3] = value
            elif name in ("player.angle", "boss.angle"):
                s[f"{name[:-6]}_pose"][3] = value
            elif name == "player.sp" or (has_real_health and name in ("player.hp", "boss.hp")):
                s[name.replace(".", "_")] = value

    def _boss_name(self, read: Mapping[str, Any]) -> str:
        """Return what the boss does; where the game tells its attacks by number too, names that linger are resolved."""
        name: str = read["boss.animation"]
        if not self._has_attack_ids:
            return name
        return true_name(
            name,
            is_over=read["boss.animation_time"] >= read["boss.animation_length"],
            attack_id=int(read["boss.attack_id"]),
            next_attack_id=int(read["boss.next_attack_id"]),
        )

    def _take_camera(self, read: Mapping[str, Any]) -> None:
        c, p, b = self._camera, self._player, self._boss
        if "camera.direction" in self._known:
            c[3:] = read["camera.direction"]
        else:
            ux, uy, _ = direction(b[0] - p[0], b[1] - p[1], 1.0, 0.0)
            c[3], c[4], c[5] = ux * CAMERA_COS, uy * CAMERA_COS, -CAMERA_SIN
        if "camera.position" in self._known:
            c[:3] = read["camera.position"]
        else:
            c[0], c[1] = p[0] - CAMERA_BACK_M * c[3] / CAMERA_COS, p[1] - CAMERA_BACK_M * c[4] / CAMERA_COS
            c[2] = p[2] + CAMERA_UP_M

    def _take_phase(self, read: Mapping[str, Any], boss: str) -> None:
        if "phase" in self._known:
            self._columns["phase"][0] = read["phase"]
        elif boss == self._scenario.phase_two_animation:
            self._is_changing = True
        elif self._is_changing:
            self._columns["phase"][0] = 2

    def _bin_s(self, boss: str, boss_s: float, game_time_s: float) -> float:
        """Return the time of the boss's animation, with that of the walks and turns right before it."""
        is_strolling = boss in _STROLLS
        passed_s = 0.0 if self._last_s is None else game_time_s - self._last_s
        goes_on = is_strolling and self._was_strolling
        self._stroll_s = max(self._stroll_s + passed_s, boss_s) if goes_on else boss_s
        self._last_s, self._was_strolling = game_time_s, is_strolling
        return self._stroll_s


class _AnimationClock:
    """The time since an animation began.

    Args:
        is_told: The game tells it.
    """

    def __init__(self, is_told: bool) -> None:
        self._is_told = is_told
        self.begin()

    def begin(self) -> None:
        """Forget what came before."""
        self._name: str | None = None
        self._since_s = 0.0

    def time_s(self, name: str, told_s: float | None, game_time_s: float) -> float:
        """Return how long the animation lasts, told by the game or counted since it was first seen."""
        if self._is_told and told_s is not None:
            return told_s
        if name != self._name:
            self._name, self._since_s = name, game_time_s
        return game_time_s - self._since_s
