"""Fact files of bosses of real games: where the fight takes place, start poses, and ids in the game (docs/bosses.md).

A fact that is not published is left out of the file. Code that needs it raises `MissingFactError`, whose message says
how to record it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from soulslab.config import load_settings
from soulslab.config.loading import read_toml
from soulslab.errors import ConfigError, MissingFactError, UnknownBossError
from soulslab.games import profile_path
from soulslab.games.facts import GAMES, FactFile, Id, Text, unknown
from soulslab.siphon.profile import Profile, load_profile

#: Name of the attribute group and of the entity of the boss in every profile.
GROUP = "boss"

Metres = Annotated[float, Meta(ge=-100_000, le=100_000)]
Radians = Annotated[float, Meta(ge=-3.15, le=3.15)]
Interval = tuple[Metres, Metres]
Health = Annotated[int, Meta(ge=1, le=1_000_000)]


class Pose(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Position and orientation of a character.

    Attributes:
        position_m: x, y and height, in the coordinate system that the file names.
        angle_rad: Orientation, as in ``player.angle``; None if it is not published.
    """

    position_m: tuple[Metres, Metres, Metres]
    angle_rad: Radians | None = None


class Poses(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Named poses of the player and the boss.

    Attributes:
        bonfire: Player at the bonfire where the game places it.
        fog_wall: Player in front of the fog wall, where it can walk through.
        behind_fog_wall: Player after it has walked through the fog wall.
        player_start: Player at the start of an episode.
        player_starts: Poses from which the start of the player is drawn at random.
        boss_start: Boss at the start of an episode.
        centre: Centre of the arena.
    """

    bonfire: Pose | None = None
    fog_wall: Pose | None = None
    behind_fog_wall: Pose | None = None
    player_start: Pose | None = None
    player_starts: tuple[Pose, ...] = ()
    boss_start: Pose | None = None
    centre: Pose | None = None


class ArenaFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Area of the fight.

    Attributes:
        limits_m: Minimum and maximum of x, y and height; a position below the minimum height is a fall.
        polygon_m: Corners of the edge, x and y.
        reward_centre_m: Point, x and y, used by a reward for staying near the centre.
    """

    limits_m: tuple[Interval, Interval, Interval] | None = None
    polygon_m: tuple[tuple[Metres, Metres], ...] = ()
    reward_centre_m: tuple[Metres, Metres] | None = None


class BossAnimations(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Animation names of the boss; their order numbers them in observations.

    Attributes:
        attacks: Animations in which the boss can hurt the player.
        movement: Walking, turning, standing.
        misc: All other animations.
    """

    attacks: Annotated[tuple[Text, ...], Meta(min_length=1)]
    movement: tuple[Text, ...] = ()
    misc: tuple[Text, ...] = ()


class PhaseTwo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Start of the second phase.

    Attributes:
        animation: First animation of the phase; "" if it is not published.
        begins_at: Share of the full health below which the phase begins.
        brought_on_hp: Health to set so that the phase begins with the next attack; None uses a value a little below
            `begins_at`.
    """

    animation: str = ""
    begins_at: Annotated[float, Meta(gt=0, lt=1)]
    brought_on_hp: Health | None = None


class BossFacts(FactFile, frozen=True, kw_only=True):
    """Facts about a boss; a fact that is not published is left out.

    Attributes:
        name: Name of the boss in the game.
        attributes: Attribute group of this boss in the profile; if the game finds bosses by id, the group of the
            entity.
        entity_id: Id in the game's list of enemies.
        defeat_flag: Event flag that is set when the boss is defeated.
        rested_flag: Event flag of the bonfire or site of grace near the boss.
        encounter: Attribute values that the profile needs at loading time for the fight to be available.
        warp_points: Names of warp points near the boss, the best first.
        max_hp: Full health in the first playthrough.
        player_max_hp: Full health of the player with which agents were trained.
        player_max_sp: Full stamina of the player with which agents were trained.
        frame: Position attribute of the player whose coordinate system the file uses.
        poses: Named poses.
        arena: Area of the fight.
        animations: Animations of the boss.
        player_stats: Stats of the player with which agents were trained.
        phase_two: Start of the second phase; None for a boss with one phase.
    """

    name: Text
    attributes: Text = GROUP
    entity_id: Id | None = None
    defeat_flag: Id | None = None
    rested_flag: Id | None = None
    encounter: dict[Text, bool | int] = msgspec.field(default_factory=dict)
    warp_points: tuple[Text, ...] = ()
    max_hp: Health | None = None
    player_max_hp: Health | None = None
    player_max_sp: Health | None = None
    frame: Literal["player.position", "player.block_position"] = "player.position"
    poses: Poses = Poses()
    arena: ArenaFacts = ArenaFacts()
    animations: BossAnimations | None = None
    player_stats: dict[str, Annotated[int, Meta(ge=1, le=802)]] = msgspec.field(default_factory=dict)
    phase_two: PhaseTwo | None = None

    def missing(self) -> tuple[str, ...]:
        """Return the names of the facts that are not known, in the form that `need` accepts."""
        return tuple(fact for fact in RECIPES if not self._get(fact))

    def need(self, *facts: str) -> None:
        """Raise an error unless facts such as ``defeat_flag`` or ``poses.fog_wall`` are known.

        Raises:
            MissingFactError: Some are not known; the message says how to record each.
            ConfigError: A name is not the name of a fact; the message suggests a similar name.
        """
        for fact in facts:
            if fact not in RECIPES:
                raise unknown("fact", fact, RECIPES)
        absent = tuple(fact for fact in facts if not self._get(fact))
        if absent:
            raise MissingFactError(self.name, absent, [RECIPES[fact] for fact in absent])

    def pose(self, name: str) -> Pose:
        """Return a pose by its name in `Poses`.

        Raises:
            MissingFactError: The pose is not known.
            ConfigError: The name is not the name of a pose; the message suggests a similar name.
        """
        self.need(f"poses.{name}")
        pose = getattr(self.poses, name)
        if not isinstance(pose, Pose):
            raise ConfigError(f"poses.{name} is several poses")
        return pose

    def _get(self, fact: str) -> Any:
        value: Any = self
        for part in fact.split("."):
            value = getattr(value, part, None)
        return value


_READ = "soulslab siphon read GAME"
_RECORD = "soulslab siphon record GAME FILE --frames none --attribute"
_OF = "--boss BOSS"
_STAND = f"read the position attribute of the file and player.angle ({_READ} player.position player.angle)"
_EDGE = f"walk along the edge and record the position ({_RECORD} player.position)"
#: Instructions for finding a fact, by the name of the fact.
RECIPES = {
    "entity_id": "scan the list of enemies for an id that only this boss has (soulslab siphon scan GAME)",
    "defeat_flag": "look it up in the game's event scripts, or compare the flags before and after a win",
    "rested_flag": "look it up in the game's event scripts, or compare the flags before and after a rest",
    "warp_points": f"rest there and read world.last_bonfire or world.last_grace ({_READ})",
    "max_hp": f"read it in the fight ({_READ} boss.max_hp {_OF})",
    "poses.bonfire": f"sit down at the bonfire or site of grace and {_STAND}",
    "poses.fog_wall": f"stand before the fog and {_STAND}",
    "poses.behind_fog_wall": f"walk through the fog and {_STAND}",
    "poses.player_start": f"stand where the fight should begin and {_STAND}",
    "poses.player_starts": f"stand in several places where the fight may begin and in each {_STAND}",
    "poses.boss_start": f"read it as the fight begins ({_READ} boss.position boss.angle {_OF})",
    "poses.centre": f"stand in the middle of the arena and {_STAND}",
    "arena.limits_m": f"{_EDGE}; use the minimum and maximum of x, y and height",
    "arena.polygon_m": f"{_EDGE}; use the corners",
    "arena.reward_centre_m": f"stand in the middle of the arena and {_STAND}",
    "animations": f"record a fight ({_RECORD} boss.animation {_OF}) and list its animations",
    "player_stats": f"read the stats of the player ({_READ})",
    "phase_two": f"record a fight ({_RECORD} boss.animation {_OF}); leave it out for a boss with one phase",
    "phase_two.animation": (
        f"record a fight ({_RECORD} boss.animation --attribute boss.hp {_OF}) and note the animation at the change"
    ),
}


def boss_names(game: str) -> tuple[str, ...]:
    """Return the names of the bosses of a game that have a file."""
    return tuple(sorted(file.stem for file in (GAMES / game / "bosses").glob("*.toml")))


def load_boss_facts(game: str, boss: str | Path) -> BossFacts:
    """Read the facts about a boss.

    Args:
        game: ``dark_souls_3`` or ``elden_ring``.
        boss: Name of a boss (`boss_names`), or the path of a fact file; a string that ends with ``.toml`` is a path.

    Raises:
        UnknownBossError: The game has no boss of that name.
        ConfigError: The file is malformed, or is a boss file of the built-in fight.
    """
    if isinstance(boss, Path) or boss.endswith(".toml"):
        if "moves" in read_toml(Path(boss)):
            raise ConfigError(
                "is a boss file of the built-in fight, for boss= of soulslab/Arena-v0 and --boss of soulslab arena; a "
                "game needs a fact file of its boss (docs/bosses.md)",
                source=boss,
            )
        return load_settings(BossFacts, Path(boss))
    if boss not in boss_names(game):
        raise UnknownBossError(boss, boss_names(game), "the path of a fact file, which ends in .toml")
    return load_settings(BossFacts, GAMES / game / "bosses" / f"{boss}.toml")


def load_profile_with(game: Path, boss: str = "") -> Profile:
    """Read a profile (see `profile_path`) with the attributes of a boss (see `load_boss_facts`); "" keeps its own."""
    path = profile_path(game)
    profile = load_profile(path)
    return with_boss(profile, load_boss_facts(path.parent.name, boss)) if boss else profile


def with_boss(profile: Profile, facts: BossFacts) -> Profile:
    """Return a profile whose ``boss.*`` attributes are those of a boss.

    If the profile finds bosses by id, the entity gets the id of this boss. Otherwise the attribute group of this boss
    replaces ``boss``; attributes that the group lacks are removed.

    Raises:
        MissingFactError: The profile finds bosses by id, and the id of this boss is not known.
        ConfigError: The profile has no such attribute group.
    """
    if facts.attributes == GROUP and GROUP in profile.entities:
        facts.need("entity_id")
        entity = msgspec.structs.replace(profile.entities[GROUP], id=facts.entity_id, source=facts.source)
        return msgspec.structs.replace(profile, entities={**profile.entities, GROUP: entity})
    if facts.attributes == GROUP:
        return profile
    prefix = f"{facts.attributes}."
    every = profile.attributes
    own = {f"{GROUP}.{name.removeprefix(prefix)}": one for name, one in every.items() if name.startswith(prefix)}
    if not own:
        raise unknown("group of attributes", facts.attributes, sorted({name.partition(".")[0] for name in every}))
    kept = {name: one for name, one in every.items() if not name.startswith((f"{GROUP}.", prefix))} | own
    duel = profile.duel
    if duel is not None:
        bound = {quantity: name for quantity, name in duel.get("attributes", {}).items() if name in kept}
        duel = {**duel, "attributes": bound}
    return msgspec.structs.replace(profile, attributes=kept, duel=duel)
