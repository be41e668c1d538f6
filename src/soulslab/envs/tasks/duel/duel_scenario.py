"""A scenario: which boss, where, between which limits. Facts of a place, not of a game's memory."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from soulslab.arena.boss_file import Boss
from soulslab.arena.knight_file import load_knight

Pose: TypeAlias = tuple[float, float, float, float]
"""x, y, height (m) and angle (rad)."""


#: As the game has positions.
POSITION = "player.position"


class Vitals(msgspec.Struct, frozen=True):
    """The player's bars when they are full.

    Attributes:
        hp: Health.
        sp: Stamina.
    """

    hp: int
    sp: int


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One boss in its place.

    Attributes:
        name: Of the boss.
        frame: Quantity in whose frame all positions are (`soulslab.envs.tasks.duel.duel_game.DuelGame`).
        player_max_hp: Player's full health; None is read of the game at the start of each episode.
        player_max_sp: Player's full stamina; the same.
        boss_max_hp: Boss's full health.
        phase_two_hp: The second phase begins at this health of the boss.
        phase_two_animation: Animation of the boss with which the second phase begins; "" if there is none.
        forcing_hp: Health of the boss that brings on its second phase; 0 for nine tenths of `phase_two_hp`.
        limits_m: Least and greatest x, y and height that are reported.
        floor_m: Height of the ground.
        fall_m: Whoever is below this height falls to death.
        is_fall_deadly: Whoever begins to fall does so too: there is nothing to step down from.
        reward_centre_m: The reward term ``centre`` pays for coming nearer to it.
        player_pose: Where the player starts; None is wherever the game has it.
        player_poses_random: Where else it may start.
        boss_pose: Where the boss starts; the same.
        attacks: Names of the boss's attacks, by animation.
    """

    name: str
    frame: str = POSITION
    player_max_hp: int | None
    player_max_sp: int | None
    boss_max_hp: int
    phase_two_hp: int = 0
    phase_two_animation: str = ""
    forcing_hp: int = 0
    limits_m: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
    floor_m: float
    fall_m: float
    is_fall_deadly: bool = False
    reward_centre_m: tuple[float, float]
    player_pose: Pose | None = None
    player_poses_random: tuple[Pose, ...] = ()
    boss_pose: Pose | None = None
    attacks: dict[str, str] = {}


#: Whoever is so far below the ground is falling.
FALL_DEPTH_M = 1.0


def scenario_of(boss: Boss) -> Scenario:
    """Return the scenario of a boss of the built-in fight."""
    ground, vitals = boss.ground, load_knight().vitals
    moves = {move.id: move for move in boss.moves}
    return Scenario(
        name=boss.name,
        player_max_hp=vitals.hp,
        player_max_sp=vitals.sp,
        boss_max_hp=boss.hp,
        phase_two_hp=int(boss.hp * boss.phase_two.below),
        phase_two_animation=moves[boss.phase_two.move].animation,
        limits_m=tuple(ground.limits_m),  # type: ignore[arg-type]
        floor_m=ground.floor_m,
        fall_m=ground.floor_m - FALL_DEPTH_M,
        is_fall_deadly=True,
        reward_centre_m=ground.reward_centre_m,
        player_pose=_on_floor(ground.player_pose, ground.floor_m),
        player_poses_random=tuple(_on_floor(pose, ground.floor_m) for pose in ground.player_poses_random),
        boss_pose=ground.boss_pose,
        attacks={move.animation: move.id for move in boss.moves},
    )


def _on_floor(pose: Pose, floor_m: float) -> Pose:
    """Return a pose of the built-in fight, whose floor is flat."""
    return pose[0], pose[1], floor_m, pose[3]
