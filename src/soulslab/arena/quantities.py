"""The quantities of a fight, by name, as memory layouts, environments and recordings refer to them.

The ``[duel]`` table of a profile maps quantities to attributes (`soulslab.arena.binding`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import msgspec
import numpy as np

from soulslab.arena.duel_state import CAMERA_BACK_M, CAMERA_UP_M
from soulslab.arena.features import CAMERA_COS, CAMERA_SIN
from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import HISTORY_TICKS, STAGES, LiveFight
from soulslab.arena.records import TICKS_PER_S
from soulslab.arena.vocabulary import BOSS_ANIMATIONS
from soulslab.errors import InvalidValueError

#: Longest run of a game that the types of its counters have to support.
LONGEST_S = 30 * 24 * 3600
#: The quantities of attack numbers have this value if there is no attack.
NO_ATTACK = -1
_ATTACK = "Attack"
#: Origin of the map block of the built-in fight; it differs from the world's origin, as in a real game.
BLOCK_ORIGIN_M = (128.0, 576.0, -64.0)
#: Largest distance beyond the floor that a fall or a push over the edge can reach.
_FALL_M = 10.0

QuantityKind: TypeAlias = Literal["number", "flag", "vector", "animation", "bytes"]
Value: TypeAlias = Any
"""float, bool, ndarray of 3 float64 (x, y, height), the name of an animation, or bytes."""


class Quantity(msgspec.Struct, frozen=True):
    """One quantity of a fight.

    Attributes:
        put: Function that changes it; None if the game recomputes it each tick, so that a change would not last.
        extremes: Function that returns extreme values, which its storage has to be able to hold; empty for any storage.
        kind: ``number``, ``flag``, ``vector`` (x, y, height or a direction), ``animation`` (its name) or ``bytes``.
        rounds_up: Whether it is rounded up when it is stored as an integer, so that a positive rest does not become 0.
    """

    doc: str
    get: Callable[[LiveFight], Value]
    put: Callable[[LiveFight, Value], None] | None = None
    extremes: Callable[[LiveFight], Sequence[Value]] = lambda _: ()
    kind: QuantityKind = "number"
    unit: str = ""
    length: int = 1
    rounds_up: bool = False


def _put_player_position(game: LiveFight, value: Value) -> None:
    d = game.duel
    d.p_x, d.p_y, d.p_z = (float(part) for part in value)
    game.stand_up()


def _put_boss_position(game: LiveFight, value: Value) -> None:
    game.duel.b_x, game.duel.b_y = float(value[0]), float(value[1])


def _put_lock_on(game: LiveFight, value: Value) -> None:
    game.duel.lock_on = int(bool(value))
    if not value:
        game.duel.lock_off_ticks = 0


def _put_camera_direction(game: LiveFight, value: Value) -> None:
    flat = math.hypot(value[0], value[1])
    if flat > 0.0:
        game.duel.c_fx, game.duel.c_fy = value[0] / flat, value[1] / flat


def _put_speed(game: LiveFight, value: Value) -> None:
    if not (math.isfinite(value) and value >= 0.0):
        raise InvalidValueError("game.speed", value, "it must be 0 or more")
    game.speed = float(value)


def _put_next_seed(game: LiveFight, value: Value) -> None:
    game.next_seed = int(value) if value >= 0 else None


def _or_none(seed: int | None) -> int:
    return seed if seed is not None else -1


def _flag(name: str, doc: str) -> Quantity:
    """Return a switch of the game, given the name of its attribute."""
    return Quantity(doc, attrgetter(name), lambda game, value: setattr(game, name, bool(value)), kind="flag")


def _player_position(game: LiveFight) -> Value:
    d = game.duel
    return np.array([d.p_x, d.p_y, d.p_z])


def _boss_position(game: LiveFight) -> Value:
    return np.array([game.duel.b_x, game.duel.b_y, game.fight.floor])


def _camera_position(game: LiveFight) -> Value:
    d = game.duel
    return np.array([d.p_x - CAMERA_BACK_M * d.c_fx, d.p_y - CAMERA_BACK_M * d.c_fy, d.p_z + CAMERA_UP_M])


def _camera_direction(game: LiveFight) -> Value:
    d = game.duel
    return np.array([d.c_fx * CAMERA_COS, d.c_fy * CAMERA_COS, -CAMERA_SIN])


def _between(low: float, high: float) -> Callable[[LiveFight], Sequence[Value]]:
    return lambda _: (low, high)


def _positions(game: LiveFight, beyond_m: float = _FALL_M) -> Sequence[Value]:
    """Return two corners of a box that contains the whole fight."""
    f = game.fight
    reach = float(f.radius) + beyond_m
    low = np.array([f.centre_x - reach, f.centre_y - reach, f.death_z])
    return low, np.array([f.centre_x + reach, f.centre_y + reach, f.floor])


def _camera_positions(game: LiveFight) -> Sequence[Value]:
    above = np.array([0.0, 0.0, CAMERA_UP_M])
    return tuple(corner + above for corner in _positions(game, _FALL_M + CAMERA_BACK_M))


def _boss_animations(game: LiveFight) -> Sequence[str]:
    return tuple(dict.fromkeys((*BOSS_ANIMATIONS, *(move.animation for move in game.boss.moves), "")))


def player_animation(game: LiveFight) -> str:
    """Return the name of the player's animation."""
    return load_knight().animations[game.duel.p_anim]


def boss_animation(game: LiveFight) -> str:
    """Return the name of the boss's animation; one that is not in the vocabulary is named by its move."""
    number = int(game.duel.b_anim)
    if number >= 0:
        return BOSS_ANIMATIONS[number]
    return game.boss.moves[game.duel.b_move].animation if game.duel.b_move >= 0 else ""


def _player_animation_length(game: LiveFight) -> float:
    return float(game.fight.animations[game.duel.p_anim].duration) / TICKS_PER_S


def _boss_animation_length(game: LiveFight) -> float:
    move = int(game.duel.b_move)
    return float(game.fight.moves[move].duration) / TICKS_PER_S if move >= 0 else 0.0


def _boss_attack_id(game: LiveFight) -> int:
    number = boss_animation(game).removeprefix(_ATTACK)
    return int(number) if number.isdecimal() else NO_ATTACK


def _level(doc: str, unit: str, field: str, maximum: str) -> Quantity:
    """Return a level from 0 to a maximum, given the names of both fields in the records."""
    get, most = attrgetter(f"duel.{field}"), attrgetter(f"fight.{maximum}")

    def put(game: LiveFight, value: Value) -> None:
        setattr(game.duel, field, min(max(float(value), 0.0), float(most(game))))

    return Quantity(doc, get, put, lambda game: (0.0, most(game)), unit=unit, rounds_up=True)


def _full(doc: str, unit: str, maximum: str) -> Quantity:
    get = attrgetter(f"fight.{maximum}")
    return Quantity(doc, get, extremes=lambda game: (get(game),), unit=unit)


def _angle(who: str, get: Callable[[LiveFight], Value], fields: tuple[str, str]) -> Quantity:
    """Return the facing of a fighter, given the names of the fields of its direction."""

    def put(game: LiveFight, value: Value) -> None:
        for field, part in zip(fields, (-math.sin(value), -math.cos(value)), strict=True):
            setattr(game.duel, field, part)

    return Quantity(f"facing of the {who}: (-sin, -cos)", get, put, _between(-math.pi, math.pi), unit="rad")


def _animation_time(who: str, get: Callable[[LiveFight], Value]) -> Quantity:
    doc = f"time since the start of the {who}'s animation"
    return Quantity(doc, get, extremes=_between(0.0, LONGEST_S), unit="s")


def _animation_length(what: str, get: Callable[[LiveFight], Value], table: str) -> Quantity:
    """Return a duration, given the name of the table of the rules with all durations."""

    def extremes(game: LiveFight) -> Sequence[Value]:
        return 0.0, float(game.fight[table]["duration"].max()) / TICKS_PER_S

    return Quantity(f"duration of the {what}; 0 if it has no end", get, extremes=extremes, unit="s")


_COUNTED = _between(0, LONGEST_S * TICKS_PER_S)
_CRC_32 = _between(0, 2**32 - 1)
_SEEDS = _between(-1, 2**63 - 1)

_ATTACK_NUMBERS = _between(NO_ATTACK, 9_999)

QUANTITIES: dict[str, Quantity] = {
    "player.hp": _level("the player's health", "hp", "p_hp", "p_max_hp"),
    "player.max_hp": _full("the player's full health", "hp", "p_max_hp"),
    "player.sp": _level("the player's stamina", "sp", "p_sp", "p_max_sp"),
    "player.max_sp": _full("the player's full stamina", "sp", "p_max_sp"),
    "player.position": Quantity(
        "position of the player", _player_position, _put_player_position, _positions, kind="vector", unit="m"
    ),
    "player.block_position": Quantity(
        f"position of the player relative to the block of the map, whose origin is {BLOCK_ORIGIN_M} m",
        lambda g: _player_position(g) - BLOCK_ORIGIN_M,
        extremes=lambda g: [corner - BLOCK_ORIGIN_M for corner in _positions(g)],
        kind="vector",
        unit="m",
    ),
    "player.angle": _angle("player", lambda g: math.atan2(-g.duel.p_fx, -g.duel.p_fy), ("p_fx", "p_fy")),
    "player.animation": Quantity(
        "the player's animation", player_animation, extremes=lambda _: load_knight().animations, kind="animation"
    ),
    "player.animation_time": _animation_time("player", lambda g: g.duel.p_ticks / TICKS_PER_S),
    "player.animation_length": _animation_length("player's animation", _player_animation_length, "animations"),
    "boss.hp": _level("the boss's health", "hp", "b_hp", "b_max_hp"),
    "boss.max_hp": _full("the boss's full health", "hp", "b_max_hp"),
    "boss.position": Quantity(
        "position of the boss", _boss_position, _put_boss_position, _positions, kind="vector", unit="m"
    ),
    "boss.angle": _angle("boss", lambda g: math.atan2(-g.duel.b_fx, -g.duel.b_fy), ("b_fx", "b_fy")),
    "boss.animation": Quantity("the boss's animation", boss_animation, extremes=_boss_animations, kind="animation"),
    "boss.animation_time": _animation_time("boss", lambda g: g.duel.b_anim_ticks / TICKS_PER_S),
    "boss.animation_length": _animation_length("boss's move", _boss_animation_length, "moves"),
    "boss.attack_id": Quantity(
        "number of the boss's attack; -1 for no attack", _boss_attack_id, extremes=_ATTACK_NUMBERS
    ),
    "boss.next_attack_id": Quantity(
        "number of the previous attack; -1 for no attack", lambda _: NO_ATTACK, extremes=_ATTACK_NUMBERS
    ),
    "camera.position": Quantity(
        "position of the camera", _camera_position, extremes=_camera_positions, kind="vector", unit="m"
    ),
    "camera.direction": Quantity(
        "direction of the camera, a unit vector",
        _camera_direction,
        _put_camera_direction,
        lambda _: (np.full(3, -1.0), np.full(3, 1.0)),
        kind="vector",
    ),
    "lock_on": Quantity("the camera is locked on the boss", lambda g: bool(g.duel.lock_on), _put_lock_on, kind="flag"),
    "phase": Quantity("phase of the fight, 1 or 2", lambda g: int(g.duel.phase), extremes=_between(1, 2)),
    "game.stage": Quantity(
        f"stage of the game: {', '.join(STAGES)}",
        lambda g: STAGES.index(g.stage),
        extremes=_between(0, len(STAGES) - 1),
    ),
    "game.speed": Quantity("factor of game time; 0 pauses it", attrgetter("speed"), _put_speed, _between(0.0, 1.0)),
    "game.tick": Quantity("ticks since the game began", attrgetter("n_ticks"), extremes=_COUNTED),
    "game.time_s": Quantity(
        "game time since the game began", lambda g: g.n_ticks / TICKS_PER_S, extremes=_between(0.0, LONGEST_S), unit="s"
    ),
    "game.history": Quantity(
        "codes of the last ticks, a ring buffer; tick n is at n modulo the length",
        lambda g: g.history.tobytes(),
        kind="bytes",
        length=HISTORY_TICKS,
    ),
    "fight.rules": Quantity("CRC-32 of boss, phase, poses and knight", attrgetter("rules_digest"), extremes=_CRC_32),
    "fight.digest": Quantity("CRC-32 of the whole state of the fight", lambda g: g.digest(), extremes=_CRC_32),
    "fight.generator": Quantity(
        "state of the generator before the fight began", attrgetter("generator"), extremes=_between(0, 2**64 - 1)
    ),
    "fight.number": Quantity("number of fights begun, including this one", attrgetter("n_fights"), extremes=_COUNTED),
    "fight.tick": Quantity("ticks of this fight", lambda g: int(g.duel.tick), extremes=_COUNTED),
    "fight.seed": Quantity(
        "seed of this fight; -1 if it continues the generator of the previous fight",
        lambda g: _or_none(g.seed),
        extremes=_SEEDS,
    ),
    "fight.next_seed": Quantity(
        "seed of the next fight; -1 for none", lambda g: _or_none(g.next_seed), _put_next_seed, _SEEDS
    ),
    "player.no_death": _flag("no_death", "the player cannot die"),
    "player.no_gravity": _flag("no_gravity", "the player does not fall"),
    "boss.no_attack": _flag("no_attack", "the boss does not start attacks"),
}
