"""Scenarios: facts about a boss and its arena, as opposed to facts about the memory of a game (profiles)."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from soulslab.arena.boss_file import Boss
from soulslab.arena.knight_file import load_knight
from soulslab.games.boss_facts import BossFacts
from soulslab.games.boss_facts import Pose as KnownPose

Pose: TypeAlias = tuple[float, float, float, float]
"""x, y, height (m) and angle (rad)."""

#: The player's position in the coordinate system of the game.
POSITION = "player.position"
#: Depth below the ground of the built-in fight at which the player has died of a fall.
FALL_DEPTH_M = 1.0
#: Horizontal distance between the known positions and the limits of the arena, if the limits are not known.
REACH_M = 60.0
#: Vertical distance between the known positions and the limits of the arena. A player below the lower limit falls.
DEPTH_M = 20.0


class Vitals(msgspec.Struct, frozen=True):
    """Full health and stamina of the player."""

    hp: int
    sp: int


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A boss and its arena.

    Attributes:
        name: Name of the boss.
        frame: Coordinate system of all positions (`soulslab.envs.tasks.duel.duel_game.DuelGame`).
        player_max_hp: Full health of the player; None reads it from the game at the start of each episode.
        player_max_sp: Full stamina of the player; None reads it from the game at the start of each episode.
        boss_max_hp: Full health of the boss.
        phase_two_hp: Health of the boss at which the second phase begins.
        phase_two_animation: Animation of the boss with which the second phase begins; "" if there is none.
        forcing_hp: Health that is written to make the boss begin its second phase; 0 for nine tenths of `phase_two_hp`.
        limits_m: Smallest and largest x, y and height of an observation.
        floor_m: Height of the ground.
        fall_m: Height below which the player has died of a fall.
        is_fall_deadly: Whether the player has died as soon as it begins to fall (an arena without steps).
        reward_centre_m: Point whose distance the reward term ``centre`` uses.
        player_pose: Start pose of the player; None does not move the player.
        player_poses_random: Other start poses of the player.
        boss_pose: Start pose of the boss; None does not move the boss.
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


def scenario_of(boss: Boss) -> Scenario:
    """Return the scenario of a boss of the built-in fight."""
    ground, vitals = boss.ground, load_knight().vitals
    moves = {move.id: move for move in boss.moves}
    x, y, _, angle = ground.player_pose
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
        # The floor of the built-in fight is flat.
        player_pose=(x, y, ground.floor_m, angle),
        player_poses_random=tuple((x, y, ground.floor_m, angle) for x, y, _, angle in ground.player_poses_random),
        boss_pose=ground.boss_pose,
        attacks={move.animation: move.id for move in boss.moves},
    )


def scenario_of_facts(facts: BossFacts) -> Scenario:
    """Return the scenario of a boss of a real game.

    Unknown facts are taken from the game: the player's full health and stamina are then read at the start of each
    episode. If no start pose is known, the character is not moved. Raises `MissingFactError` if the boss's full health
    is unknown, or no pose in its arena is known.
    """
    facts.need("max_hp")
    max_hp = facts.max_hp or 0
    poses = facts.poses
    central = (poses.centre, poses.boss_start, poses.player_start, poses.behind_fog_wall, poses.fog_wall)
    places = [pose for pose in (*central, *poses.player_starts) if pose is not None]
    if not places:
        facts.need("poses.fog_wall")
    # The second phase is only recognised by its animation. If that is unknown, the scenario has a single phase.
    phase_two = facts.phase_two if facts.phase_two and facts.phase_two.animation else None
    attacks = facts.animations.attacks if facts.animations else ()
    begins_hp = int(max_hp * phase_two.begins_at) if phase_two else 0
    reaches_m = (REACH_M, REACH_M, DEPTH_M)
    axes = zip(*(place.position_m for place in places), strict=True)
    around_m = tuple((min(axis) - reach_m, max(axis) + reach_m) for axis, reach_m in zip(axes, reaches_m, strict=True))
    limits_m = facts.arena.limits_m or around_m
    middle = places[0]
    return Scenario(
        name=facts.name,
        frame=facts.frame,
        player_max_hp=facts.player_max_hp,
        player_max_sp=facts.player_max_sp,
        boss_max_hp=max_hp,
        phase_two_hp=begins_hp,
        phase_two_animation=phase_two.animation if phase_two else "",
        forcing_hp=(phase_two.brought_on_hp or 0) if phase_two else 0,
        limits_m=limits_m,  # type: ignore[arg-type]
        floor_m=middle.position_m[2],
        fall_m=limits_m[2][0],
        reward_centre_m=facts.arena.reward_centre_m or middle.position_m[:2],
        player_pose=_pose(poses.player_start),
        player_poses_random=tuple(pose for pose in map(_pose, poses.player_starts) if pose),
        boss_pose=_pose(poses.boss_start),
        attacks={animation: animation for animation in attacks},
    )


def _pose(known: KnownPose | None) -> Pose | None:
    """Return a pose of a scenario. An unknown angle is 0; an episode turns the fighters to face each other anyway."""
    return (*known.position_m, known.angle_rad or 0.0) if known is not None else None
