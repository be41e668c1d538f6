"""Converts the facts of a boss of a real game into the scenario of an environment."""

from __future__ import annotations

from collections.abc import Iterator

from soulslab.envs.tasks.duel.duel_scenario import Pose, Scenario
from soulslab.games.boss_facts import BossFacts, Interval
from soulslab.games.boss_facts import Pose as KnownPose

#: Horizontal distance between the known positions and the limits of the arena, if the limits are not known.
REACH_M = 60.0
#: Vertical distance between the known positions and the limits of the arena. A player below the lower limit falls.
DEPTH_M = 20.0


def scenario_of_facts(facts: BossFacts) -> Scenario:
    """Return the scenario of a boss of a real game.

    Unknown facts are taken from the game: the player's full health and stamina are then read at the start of each
    episode. If no start pose is known, the character is not moved.

    Args:
        facts: Facts of the boss.

    Raises:
        MissingFactError: The boss's full health is unknown, or no pose in its arena is known.
    """
    facts.need("max_hp")
    max_hp = facts.max_hp or 0
    places = tuple(_places(facts))
    if not places:
        facts.need("poses.fog_wall")
    # The second phase is only recognised by its animation. If that is unknown, the scenario has a single phase.
    phase_two = facts.phase_two if facts.phase_two and facts.phase_two.animation else None
    attacks = facts.animations.attacks if facts.animations else ()
    begins_hp = int(max_hp * phase_two.begins_at) if phase_two else 0
    limits_m = facts.arena.limits_m or _limits_around(places)
    middle = facts.poses.centre or facts.poses.boss_start or places[0]
    return Scenario(
        name=facts.name,
        frame=facts.frame,
        player_max_hp=facts.player_max_hp,
        player_max_sp=facts.player_max_sp,
        boss_max_hp=max_hp,
        phase_two_hp=begins_hp,
        phase_two_animation=phase_two.animation if phase_two else "",
        forcing_hp=(phase_two.brought_on_hp or 0) if phase_two else 0,
        limits_m=limits_m,
        floor_m=middle.position_m[2],
        fall_m=limits_m[2][0],
        reward_centre_m=facts.arena.reward_centre_m or middle.position_m[:2],
        player_pose=_pose(facts.poses.player_start),
        player_poses_random=tuple(pose for pose in map(_pose, facts.poses.player_starts) if pose),
        boss_pose=_pose(facts.poses.boss_start),
        attacks={animation: animation for animation in attacks},
    )


def _places(facts: BossFacts) -> Iterator[KnownPose]:
    """Yield all known poses in the arena, the most central first."""
    poses = facts.poses
    for pose in (poses.centre, poses.boss_start, poses.player_start, poses.behind_fog_wall, poses.fog_wall):
        if pose is not None:
            yield pose
    yield from poses.player_starts


def _limits_around(places: tuple[KnownPose, ...]) -> tuple[Interval, Interval, Interval]:
    xs, ys, heights = zip(*(place.position_m for place in places), strict=True)
    return _around(xs, REACH_M), _around(ys, REACH_M), _around(heights, DEPTH_M)


def _around(values: tuple[float, ...], reach_m: float) -> Interval:
    return min(values) - reach_m, max(values) + reach_m


def _pose(known: KnownPose | None) -> Pose | None:
    """Return a pose of a scenario. An unknown angle is 0; an episode turns the fighters to face each other anyway."""
    return (*known.position_m, known.angle_rad or 0.0) if known is not None else None
