"""A boss of a real game as data: where it is fought, where everyone stands, and how the game knows it.

::

    facts = load_boss_facts("dark_souls_3", "vordt")
    facts.need("poses.fog_wall", "defeat_flag")
    profile = with_boss(load_profile(PROFILE_PATH), facts)   # its boss.* are Vordt's

A fact that nobody has published is left out of the file, never made up; who needs it gets a `MissingFactError` that
says how to record it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from soulslab.errors import ConfigError, MissingFactError, UnknownBossError
from soulslab.games import profile_path
from soulslab.games.facts import GAMES, FactFile, Id, Text, read_facts, unknown
from soulslab.siphon.profile import Profile, load_profile

#: The group of attributes, and the entity, that stand for the boss in every profile.
GROUP = "boss"

Metres = Annotated[float, Meta(ge=-100_000, le=100_000)]
Radians = Annotated[float, Meta(ge=-3.15, le=3.15)]
Interval = tuple[Metres, Metres]
Health = Annotated[int, Meta(ge=1, le=1_000_000)]


class Pose(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where someone stands.

    Attributes:
        position_m: x, y and height, in the frame of the file.
        angle_rad: Which way it looks, as ``player.angle`` has it; None if nobody has said.
    """

    position_m: tuple[Metres, Metres, Metres]
    angle_rad: Radians | None = None


class Poses(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where everyone stands.

    Attributes:
        bonfire: The player, where the game lets it begin.
        fog_wall: The player, where it can walk through the fog.
        behind_fog_wall: The player, when it has come through.
        player_start: The player, when an episode begins.
        player_starts: Poses to draw the player's start from.
        boss_start: The boss, when an episode begins.
        centre: The middle of the arena.
    """

    bonfire: Pose | None = None
    fog_wall: Pose | None = None
    behind_fog_wall: Pose | None = None
    player_start: Pose | None = None
    player_starts: tuple[Pose, ...] = ()
    boss_start: Pose | None = None
    centre: Pose | None = None


class ArenaFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The ground of the fight.

    Attributes:
        limits_m: Least and greatest x, y and height of a position in it; below the least height is a fall.
        polygon_m: Corners of its edge, x and y.
        reward_centre_m: Point, x and y, towards which a reward for the middle pulls.
    """

    limits_m: tuple[Interval, Interval, Interval] | None = None
    polygon_m: tuple[tuple[Metres, Metres], ...] = ()
    reward_centre_m: tuple[Metres, Metres] | None = None


class BossAnimations(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The boss's animations, by name, in the order that numbers them.

    Attributes:
        attacks: In which it can hurt.
        movement: Walking, turning, standing.
        misc: All else.
    """

    attacks: Annotated[tuple[Text, ...], Meta(min_length=1)]
    movement: tuple[Text, ...] = ()
    misc: tuple[Text, ...] = ()


class PhaseTwo(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How the second phase begins.

    Attributes:
        animation: Which it begins with; "" if nobody has said.
        begins_at: Share of its full health below which it begins.
        brought_on_hp: Health to set the boss to: with its next attack it changes; None for a little below `begins_at`.
    """

    animation: str = ""
    begins_at: Annotated[float, Meta(gt=0, lt=1)]
    brought_on_hp: Health | None = None


class BossFacts(FactFile, frozen=True, kw_only=True):
    """What is known of a boss; whatever is left out nobody has published.

    Attributes:
        name: Its name, as players know it.
        attributes: Group of the profile's attributes that are its own; where it is found by its id, that of the entity.
        entity_id: Its id in the game's list of enemies.
        defeat_flag: Event flag that is set when it has been beaten.
        rested_flag: Event flag of the bonfire or site of grace of the place.
        encounter: What attributes of the profile have to be when the place loads, for the fight to be there.
        warp_points: Names of warp points near it, the best first.
        max_hp: Its full health, the first time that the game is played.
        player_max_hp: Full health of the player that agents were trained with.
        player_max_sp: Its full stamina.
        frame: Attribute of the player that is in the frame of the file's poses and arena.
        poses: Where everyone stands.
        arena: The ground of the fight.
        animations: The boss's animations.
        player_stats: Stats of the player that agents were trained with.
        phase_two: How its second phase begins; none for a boss without one.
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
        """Return the names of the facts that are not known, as `need` takes them."""
        return tuple(fact for fact in RECIPES if not self._get(fact))

    def need(self, *facts: str) -> None:
        """Check that facts are known.

        Args:
            facts: Their names: ``defeat_flag``, ``poses.fog_wall``, ``arena.limits_m``.

        Raises:
            MissingFactError: Some are not; the message says how to record each.
            ConfigError: There is no such fact (did you mean ...).
        """
        for fact in facts:
            if fact not in RECIPES:
                raise unknown("fact", fact, RECIPES)
        absent = tuple(fact for fact in facts if not self._get(fact))
        if absent:
            raise MissingFactError(self.name, absent, [RECIPES[fact] for fact in absent])

    def pose(self, name: str) -> Pose:
        """Return a single pose by its name in `Poses`.

        Raises:
            MissingFactError: It is not known.
            ConfigError: There is no such pose (did you mean ...).
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
_STAND = f"read player.position, or the frame of the file, and player.angle ({_READ} player.position player.angle)"
_EDGE = f"walk along the edge and record it ({_RECORD} player.position)"
#: How to find out what is not known, by the name of the fact.
RECIPES = {
    "entity_id": "scan the objects of the list of enemies for what only this one has (soulslab siphon scan GAME)",
    "defeat_flag": "look it up in the game's event scripts, or compare the flags before and after a win",
    "rested_flag": "look it up in the game's event scripts, or compare the flags before and after a rest",
    "warp_points": f"rest there and read world.last_bonfire or world.last_grace ({_READ})",
    "max_hp": f"read it in the fight ({_READ} boss.max_hp {_OF})",
    "poses.bonfire": f"sit down at the bonfire or site of grace and {_STAND}",
    "poses.fog_wall": f"stand before the fog and {_STAND}",
    "poses.behind_fog_wall": f"walk through the fog and {_STAND}",
    "poses.player_start": f"stand where the fight shall begin and {_STAND}",
    "poses.player_starts": f"stand in some places where the fight may begin and in each {_STAND}",
    "poses.boss_start": f"read it as the fight begins ({_READ} boss.position boss.angle {_OF})",
    "poses.centre": f"stand in the middle of the arena and {_STAND}",
    "arena.limits_m": f"{_EDGE}, and take the least and greatest x, y and height",
    "arena.polygon_m": f"{_EDGE}, and take the corners",
    "arena.reward_centre_m": f"stand in the middle of the arena and {_STAND}",
    "animations": f"record a fight ({_RECORD} boss.animation {_OF}), and list what it holds",
    "player_stats": f"read the stats of the player ({_READ})",
    "phase_two": f"record a fight ({_RECORD} boss.animation {_OF}); a boss without a second phase has none",
    "phase_two.animation": (
        f"record a fight ({_RECORD} boss.animation --attribute boss.hp {_OF}), and see what comes when it changes"
    ),
}


def boss_names(game: str) -> tuple[str, ...]:
    """Return the bosses of a game that have a file."""
    return tuple(sorted(file.stem for file in (GAMES / game / "bosses").glob("*.toml")))


def load_boss_facts(game: str, boss: str | Path) -> BossFacts:
    """Read what is known of a boss.

    Args:
        game: ``dark_souls_3`` or ``elden_ring``.
        boss: Its name (`boss_names`), or the path of a file of one's own; text is one if it ends with ``.toml``.

    Raises:
        UnknownBossError: There is none of that name.
        ConfigError: The file is malformed; ``error.path`` says where.
    """
    if isinstance(boss, Path) or boss.endswith(".toml"):
        return read_facts(Path(boss), BossFacts)
    if boss not in boss_names(game):
        raise UnknownBossError(boss, boss_names(game))
    return read_facts(GAMES / game / "bosses" / f"{boss}.toml", BossFacts)


def load_profile_with(game: Path, boss: str = "") -> Profile:
    """Read the profile of a game, with ``boss.*`` those of a boss.

    Args:
        game: Its name, or the path of a profile (`soulslab.games.profile_path`).
        boss: As in `load_boss_facts`; "" for whichever the profile itself names.

    Raises:
        ConfigError: What `profile_path`, `load_profile`, `load_boss_facts` and `with_boss` raise.
    """
    path = profile_path(game)
    profile = load_profile(path)
    return with_boss(profile, load_boss_facts(path.parent.name, boss)) if boss else profile


def with_boss(profile: Profile, facts: BossFacts) -> Profile:
    """Return a profile whose ``boss.*`` are those of a boss.

    Args:
        profile: Of its game.
        facts: What is known of it. Where bosses are found by an id, the entity gets its id; otherwise its own group of
            attributes takes the place of ``boss``, and what the group lacks is left out.

    Raises:
        MissingFactError: The profile finds bosses by an id, and this one's is not known.
        ConfigError: The profile has no such group of attributes.
    """
    if facts.attributes == GROUP and GROUP in profile.entities:
        facts.need("entity_id")
        entity = msgspec.structs.replace(profile.entities[GROUP], id=facts.entity_id, source=facts.source)
        return msgspec.structs.replace(profile, entities={**profile.entities, GROUP: entity})
    if facts.attributes == GROUP:
        return profile
    head = f"{facts.attributes}."
    every = profile.attributes
    own = {f"{GROUP}.{name.removeprefix(head)}": one for name, one in every.items() if name.startswith(head)}
    if not own:
        raise unknown("group of attributes", facts.attributes, sorted({name.partition(".")[0] for name in every}))
    kept = {name: one for name, one in every.items() if not name.startswith((f"{GROUP}.", head))} | own
    return msgspec.structs.replace(profile, attributes=kept, duel=_without_others(profile.duel, kept))


def _without_others(duel: dict[str, Any] | None, attributes: dict[str, Any]) -> dict[str, Any] | None:
    """Return a table of a duel with only those quantities whose attributes there are."""
    if duel is None:
        return None
    bound = {quantity: name for quantity, name in duel.get("attributes", {}).items() if name in attributes}
    return {**duel, "attributes": bound}
