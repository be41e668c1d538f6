"""Boss files: a boss as data, read from TOML and validated.

A boss is a file in ``bosses/``, or any path that the user gives. ``load_boss`` returns the structs below; an invalid
value raises a `BossFileError` with its place, such as ``moves[2].windows[0].damage``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from soulslab.arena.duel_state import CAMERA_UP_M
from soulslab.arena.vocabulary import BOSS_ATTACKS
from soulslab.config.checking import check
from soulslab.config.input_files import parse_toml, read_text
from soulslab.errors import BossFileError, UnknownBossError

BOSS_DIR = Path(__file__).parent / "bosses"

MAX_MOVES = 24
MAX_WINDOWS = 8
MAX_START_POSES = 16
#: Capacity of the rules' tables for the windows and the follow-ups of all moves together.
MAX_WINDOWS_OF_ALL = 64
MAX_FOLLOW_UPS_OF_ALL = 64
#: Upper bound of the magnitude of every number in a boss file, so that the rules never compute with infinity.
MAX_NUMBER = 1_000_000
#: The two animations of the riposte are reserved for the rules.
MOVE_ANIMATIONS = (*BOSS_ATTACKS[:-2], "Attack1500")

Positive = Annotated[float, Meta(gt=0)]
NonNegative = Annotated[float, Meta(ge=0)]
Seconds = Annotated[float, Meta(ge=0, le=10)]
Angle = Annotated[float, Meta(ge=-6.2832, le=6.2832)]
Share = Annotated[float, Meta(ge=0, le=1)]
Pose = tuple[float, float, float, Angle]


class _Data(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all structs of a boss file."""


class Projectile(_Data, frozen=True):
    """Projectiles thrown straight ahead at the start of a window.

    Attributes:
        speed_m_s: Speed of a projectile.
        count: Number of projectiles that are thrown at once.
        spread_rad: Angle between two neighbouring projectiles.
        radius_m: Radius of a projectile.
        lifetime_s: Time after which a projectile disappears.
    """

    speed_m_s: Positive
    count: Annotated[int, Meta(ge=1, le=5)] = 1
    spread_rad: Annotated[float, Meta(ge=0, le=1)] = 0.0
    radius_m: Positive = 0.5
    lifetime_s: Annotated[float, Meta(gt=0, le=5)] = 2.0


class Window(_Data, frozen=True):
    """Period of a move in which it can hit.

    Attributes:
        start_s: Start, from the start of the move.
        end_s: End, from the start of the move.
        damage: Hit points that a hit takes from the player.
        reach_m: Reach beyond the radii of the two bodies; not used with a projectile.
        arc_rad: Full width of the arc; 6.2832 is a full circle.
        facing_rad: Middle of the arc, to the left (+) or right (-) of straight ahead.
        knock_back: Name of a knock-back in ``knight.toml``.
        parry: Whether the player can parry it.
        tracking_rad_s: Turn rate towards the player from the previous window's end until ``aim_s`` before this one.
        aim_s: Time before the window at which tracking ends.
        advance_m: Distance that the boss moves forward in the ``advance_s`` before the window; contact ends it.
        advance_s: Duration of that movement.
        projectile: Projectiles thrown at the start of the window, if any.
    """

    start_s: Seconds
    end_s: Seconds
    damage: Annotated[int, Meta(ge=0, le=10_000)]
    reach_m: NonNegative = 0.0
    arc_rad: Annotated[float, Meta(gt=0, le=6.2832)] = 1.5
    facing_rad: Annotated[float, Meta(ge=-3.1416, le=3.1416)] = 0.0
    knock_back: str = "middle"
    parry: bool = False
    tracking_rad_s: NonNegative = 3.0
    aim_s: Seconds = 0.15
    advance_m: NonNegative = 0.0
    advance_s: Annotated[float, Meta(gt=0, le=10)] = 0.3
    projectile: Projectile | None = None


class FollowUp(_Data, frozen=True):
    """A move that may follow without a pause; follow-ups are tried in the order of the file.

    Attributes:
        move: Id of the move that follows.
        probability: Probability that it follows, if it fits.
        within_m: Greatest distance to the player at which it fits.
        phases: Phases in which it fits.
    """

    move: str
    probability: Share
    within_m: Positive = 100.0
    phases: tuple[Annotated[int, Meta(ge=1, le=2)], ...] = (1, 2)


class Move(_Data, frozen=True):
    """One attack of a boss.

    Attributes:
        id: Name within the file.
        animation: ``Attack3000`` to ``Attack3015``, ``Attack3029``, or ``Attack1500`` for the change of phase.
        windows: Periods in which it can hit; the time before the first is the wind-up.
        recovery_s: Time from the end of the last window to the end of the move.
        weight: Relative probability among the moves that can be chosen; 0 for moves that only follow others.
        range_m: Distance to the player at which it is chosen.
        bearing_rad: Least and greatest angle of the player to either side of the boss's facing at which it is chosen.
        cooldown_s: Time after its start in which it is not chosen again.
        phases: Phases in which it is chosen.
        follow_ups: Moves that may follow it without a pause.
    """

    id: str
    animation: str
    windows: Annotated[tuple[Window, ...], Meta(min_length=1, max_length=MAX_WINDOWS)]
    recovery_s: Seconds
    weight: NonNegative = 1.0
    range_m: tuple[NonNegative, Positive] = (0.0, 5.0)
    bearing_rad: tuple[Annotated[float, Meta(ge=0, le=3.1416)], Annotated[float, Meta(gt=0, le=3.1416)]] = (0.0, 0.8)
    cooldown_s: NonNegative = 0.0
    phases: tuple[Annotated[int, Meta(ge=1, le=2)], ...] = (1, 2)
    follow_ups: tuple[FollowUp, ...] = ()

    @property
    def duration_s(self) -> float:
        """Duration of the whole move."""
        return self.windows[-1].end_s + self.recovery_s


class PhaseTwo(_Data, frozen=True):
    """The change to the second phase.

    Attributes:
        below: Share of its health at or below which it happens.
        move: Id of the move that the boss performs for it.
    """

    below: Annotated[float, Meta(gt=0, lt=1)]
    move: str


class Ground(_Data, frozen=True):
    """The ground of the fight: a round floor between walls, with a cliff on one side.

    Attributes:
        limits_m: Limits of all positions, as (low, high) of x, y and z; observations are normalised with them.
        centre_m: Centre of the floor, x and y.
        radius_m: Radius of the floor.
        floor_m: Height of the floor.
        cliff_rad: Direction of the cliff from the centre as atan2(y, x).
        cliff_width_rad: Angular width of the cliff.
        reward_centre_m: Point that the reward term ``centre`` refers to.
        player_pose: Start pose of the player (x, y, z, angle) without ``random_pose``.
        player_poses_random: Start poses of the player with ``random_pose``.
        boss_pose: Start pose of the boss.
    """

    limits_m: tuple[tuple[float, float], tuple[float, float], tuple[float, float]]
    centre_m: tuple[float, float]
    radius_m: Annotated[float, Meta(gt=0, le=90)]
    floor_m: float
    cliff_rad: Angle
    cliff_width_rad: Annotated[float, Meta(ge=0, le=6.2832)]
    reward_centre_m: tuple[float, float]
    player_pose: Pose
    player_poses_random: Annotated[tuple[Pose, ...], Meta(min_length=1, max_length=MAX_START_POSES)]
    boss_pose: Pose


class Boss(_Data, frozen=True):
    """A boss file. Pairs are (phase 1, phase 2) unless stated otherwise.

    Attributes:
        name: Display name.
        hp: Hit points.
        poise: Poise damage that staggers the boss.
        poise_regen_per_s: Rate at which the poise regenerates.
        radius_m: Radius of its body.
        walk_m_s: Walking speed.
        run_m_s: Running speed.
        run_beyond_m: Distance to the player beyond which it runs.
        turn_rad_s: Turn rate between attacks.
        keep_m: Distance (near, far) that it keeps between attacks.
        pause_s: (least, greatest) pause between attacks, one pair for each phase.
        damage_scale: Factor of the damage of all moves.
        stagger_s: Duration of a stagger (``SABreak``).
        parried_s: Time in which a parried boss is open to a riposte (``DamageParryEnemy1``).
        phase_two: The change of phase.
        ground: The ground of the fight.
        moves: Its attacks.
    """

    name: str
    hp: Annotated[int, Meta(gt=0, le=1_000_000)]
    poise: Positive
    poise_regen_per_s: NonNegative
    radius_m: Annotated[float, Meta(gt=0, le=10)]
    walk_m_s: NonNegative
    run_m_s: NonNegative
    run_beyond_m: NonNegative
    turn_rad_s: NonNegative
    keep_m: tuple[NonNegative, Positive]
    pause_s: tuple[tuple[Seconds, Seconds], tuple[Seconds, Seconds]]
    damage_scale: tuple[NonNegative, NonNegative]
    stagger_s: Seconds
    parried_s: Seconds
    phase_two: PhaseTwo
    ground: Ground
    moves: Annotated[tuple[Move, ...], Meta(min_length=2, max_length=MAX_MOVES)]


def boss_names() -> tuple[str, ...]:
    """Return the names of the bosses that ship with soulslab."""
    return tuple(sorted(path.stem for path in BOSS_DIR.glob("*.toml")))


def load_boss(boss: str | Path, knock_backs: Sequence[str]) -> Boss:
    """Load and validate a boss file.

    Args:
        boss: Name of a shipped boss, or the path of a boss file (ends in ``.toml``).
        knock_backs: Names of the knock-backs that its windows may use.

    Raises:
        UnknownBossError: No shipped boss has that name.
        BossFileError: The file cannot be read, or is invalid.
    """
    path = Path(boss)
    if path.suffix != ".toml":
        path = BOSS_DIR / f"{boss}.toml"
        if str(boss) not in boss_names():
            others = "generated:SEED, and the path of a boss file, which ends in .toml"
            raise UnknownBossError(str(boss), boss_names(), others)
    return parse_boss(read_text(path, partial(BossFileError, source=path)), path, tuple(knock_backs))


@lru_cache(maxsize=16)  # parsing takes 10 of the 16 ms in which an environment is made
def parse_boss(text: str, source: str | Path, knock_backs: tuple[str, ...]) -> Boss:
    """Parse and validate the text of a boss file; see `load_boss`. ``source`` names the file in messages."""
    data = parse_toml(text, partial(BossFileError, source=source))
    if "source" in data and "moves" not in data:
        raise BossFileError(
            "is a fact file of a boss of a game, for boss= of the environments of that game; the built-in fight needs "
            "a boss file with the boss's attacks, as soulslab boss write and soulslab boss fit write it",
            source=source,
        )
    for path, problem in _out_of_range_numbers(data):
        raise BossFileError(problem, path=path, source=source)
    boss = check(data, Boss, lambda problem, path: BossFileError(problem, path=path, source=source))
    for path, problem in _problems(boss, knock_backs):
        raise BossFileError(problem, path=path, source=source)
    return boss


def _out_of_range_numbers(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, problem) of numbers that the rules cannot use: NaN, infinity, and magnitudes above `MAX_NUMBER`."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from _out_of_range_numbers(value, f"{path}.{key}".lstrip("."))
    elif isinstance(data, list):
        for i, value in enumerate(data):
            yield from _out_of_range_numbers(value, f"{path}[{i}]")
    elif isinstance(data, int | float) and not abs(data) <= MAX_NUMBER:
        yield path, f"must be a number from -{MAX_NUMBER} to {MAX_NUMBER}"


def _problems(boss: Boss, knock_backs: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) of everything that types and bounds do not check."""
    ids = [move.id for move in boss.moves]
    for name in ("id", "animation"):
        values = [getattr(move, name) for move in boss.moves]
        for i, value in enumerate(values):
            if value in values[:i]:
                yield f"moves[{i}].{name}", f"{value!r} is used twice; each move needs a different {name}"
    yield from _unordered({"keep_m": boss.keep_m, "pause_s[0]": boss.pause_s[0], "pause_s[1]": boss.pause_s[1]})
    for i, move in enumerate(boss.moves):
        for path, problem in _move_problems(move, ids, knock_backs):
            yield f"moves[{i}].{path}", problem
    for name, most in (("windows", MAX_WINDOWS_OF_ALL), ("follow_ups", MAX_FOLLOW_UPS_OF_ALL)):
        total = sum(len(getattr(move, name)) for move in boss.moves)
        if total > most:
            yield "moves", f"all moves together have {total} {name}; the maximum is {most}"
    if int(boss.hp * boss.phase_two.below) < 1:
        yield "phase_two.below", f"{boss.phase_two.below} of {boss.hp} hit points is less than 1 hit point"
    if boss.phase_two.move not in ids:
        yield "phase_two.move", f"no move has the id {boss.phase_two.move!r}"
    for phase in (1, 2):
        if not any(phase in move.phases and move.weight > 0 for move in boss.moves):
            yield "moves", f"the boss can choose no move in phase {phase}"
    for path, problem in _ground_problems(boss.ground):
        yield f"ground.{path}", problem


def _unordered(pairs: Mapping[str, tuple[float, float]]) -> Iterator[tuple[str, str]]:
    for path, (low, high) in pairs.items():
        if low > high:
            yield path, f"{low} is greater than {high}"


def _move_problems(move: Move, ids: Sequence[str], knock_backs: Sequence[str]) -> Iterator[tuple[str, str]]:
    if move.animation not in MOVE_ANIMATIONS:
        yield "animation", f"{move.animation!r} must be one of {', '.join(MOVE_ANIMATIONS)}"
    yield from _unordered({"range_m": move.range_m, "bearing_rad": move.bearing_rad})
    if move.duration_s > 10:
        yield "recovery_s", f"the move lasts {move.duration_s:.2f} s; the maximum is 10 s"
    previous_end = 0.0
    for j, window in enumerate(move.windows):
        if window.end_s <= window.start_s:
            yield f"windows[{j}].end_s", f"{window.end_s} is not after start_s = {window.start_s}"
        if window.start_s < previous_end:
            yield f"windows[{j}].start_s", f"{window.start_s} is before the end of the previous window"
        if window.knock_back not in knock_backs:
            yield f"windows[{j}].knock_back", f"{window.knock_back!r} must be one of {', '.join(knock_backs)}"
        previous_end = window.end_s
    for j, follow_up in enumerate(move.follow_ups):
        if follow_up.move not in ids:
            yield f"follow_ups[{j}].move", f"no move has the id {follow_up.move!r}"


def _ground_problems(ground: Ground) -> Iterator[tuple[str, str]]:
    for i, (low, high) in enumerate(ground.limits_m):
        if low >= high:
            yield f"limits_m[{i}]", f"{low} is not below {high}"
    if not ground.limits_m[2][0] < ground.floor_m < ground.limits_m[2][1]:
        yield "floor_m", "is outside limits_m[2]"
    # The camera is behind and above the player, so the limits have to contain more than the floor.
    if ground.limits_m[2][1] < ground.floor_m + CAMERA_UP_M:
        yield "limits_m[2]", f"must contain the {CAMERA_UP_M} m above floor_m, where the camera is"
    margin = ground.radius_m + 6.0
    for i, centre in enumerate(ground.centre_m):
        low, high = ground.limits_m[i]
        if centre - margin < low or centre + margin > high:
            yield f"limits_m[{i}]", f"must contain the floor and 6 m around it ({margin} m from the centre)"
    poses = {f"player_poses_random[{i}]": pose for i, pose in enumerate(ground.player_poses_random)}
    poses |= {"player_pose": ground.player_pose, "boss_pose": ground.boss_pose}
    for path, (x, y, _, _) in poses.items():
        if (x - ground.centre_m[0]) ** 2 + (y - ground.centre_m[1]) ** 2 >= (ground.radius_m - 1.0) ** 2:
            yield path, "must be at least 1 m inside the edge of the floor"
