"""A simulated Souls world around the built-in fight, in the layout of a game; it uses memory and keys only.

It has a title, loading screens, a bonfire far from the arena, the fog before the arena, deaths that lead back to the
bonfire, and wins that set a flag. Outside of the arena the built-in fight is paused.
"""

import functools
import math
import struct
from pathlib import Path

import msgspec

from soulslab.arena.boss_file import load_boss
from soulslab.arena.knight_file import load_knight
from soulslab.arena.quantities import BLOCK_ORIGIN_M
from soulslab.games import profile_path
from soulslab.games.boss_facts import load_boss_facts, with_boss
from soulslab.games.facts import load_warp_points
from soulslab.siphon.attributes.pointer_chains import find_entity
from soulslab.siphon.local import LocalSession
from soulslab.siphon.profile import Attribute, load_profile
from soulslab.siphon.profile.facts import is_for, variants_of
from soulslab.siphon.session import SessionOptions
from soulslab.testing.fake_arena import PID, WINDOW_PX, FakeArena
from soulslab.testing.fake_game import FakeGame, FakeOpener, fake_info
from support.masked_game import MaskedArena, MaskedSession
from support.scaled_game import step_by_speed
from support.souls_flags import make_flags

#: Game time of a death, of a load, of the walk through the fog, and until a beaten boss disappears.
DEATH_S, LOAD_S, FOG_S, GONE_S = 3.0, 1.5, 2.0, 4.0
#: Largest distance from the fog at which it can be entered.
REACH_M = 1.5
#: Position after a load if the player rested elsewhere, and at a bonfire whose position is unknown.
ELSEWHERE, BONFIRE = (-700.0, -900.0, 40.0), (150.0, 530.0, -70.0)
#: Values of ``game.cutscene`` without and during a cutscene, by game.
CUTSCENE = {"dark_souls_3": (0, -7), "elden_ring": (False, True)}
IN_CONTROL = {
    "dark_souls_3": ("player.in_control_1", "player.in_control_16"),
    "elden_ring": ("player.in_control_5", "player.in_control_6"),
}
LAST_REST = {"dark_souls_3": "world.last_bonfire", "elden_ring": "world.last_grace"}
OTHER_REST = {"dark_souls_3": "Firelink Shrine", "elden_ring": "Roundtable Hold - Table of Lost Grace"}


@functools.cache
def _load_profile(game):
    return load_profile(profile_path(Path(game)))


def facts_of_stand_in(game, boss):
    """Return the facts of a boss, with the positions and the health of the built-in fight."""
    facts, judge = load_boss_facts(game, boss), load_boss("judge", list(load_knight().knock_backs))
    poses = facts.poses
    if poses.boss_start is not None and poses.player_starts == ():
        by = [here - there for here, there in zip(judge.ground.boss_pose, poses.boss_start.position_m, strict=False)]

        def moved(pose):
            place = tuple(number + more for number, more in zip(pose.position_m, by, strict=True))
            return msgspec.structs.replace(pose, position_m=place)

        known = {name: getattr(poses, name) for name in ("bonfire", "fog_wall", "behind_fog_wall", "boss_start")}
        x, y, z, angle = judge.ground.player_pose
        start = msgspec.structs.replace(poses.boss_start, position_m=(x, y, z), angle_rad=angle)
        poses = msgspec.structs.replace(
            poses, **{name: moved(pose) for name, pose in known.items()}, player_start=start
        )
    return msgspec.structs.replace(facts, poses=poses, max_hp=judge.hp)


def with_areas(profile):
    """Return a profile with the list of areas, which event flags need, as an attribute."""
    if "field_area" not in profile.bases or any(one.base == "field_area" for one in profile.attributes.values()):
        return profile
    areas = Attribute(base="field_area", offsets=(0x10,), type="u64", range=(0, 2.0**64), source="event flags")
    return msgspec.structs.replace(profile, attributes={**profile.attributes, "world.areas": areas})


class SoulsWorld(MaskedArena):
    """The simulated world.

    Attributes:
        at: ``title``, ``dead``, ``loading``, ``outside``, ``fog``, ``fight`` or ``won``.
        has_boss: Whether the boss exists.
        is_fog_open: Whether the fog can be entered.
        needs_forward: Whether the player must also walk forward to enter the fog.
        is_lock_lost: Whether the lock-on is lost until its key is pressed.
        load_s: Duration of a load.
        death_s: Duration of a death before the game loads.
        defeat_s: Time from the win until the flag of the boss's defeat is set.
        graves: Value of `world.untended_graves` at the last load.
        shown: Values that replace attributes of animations.
        n_loads: Number of loads.
        keys: Buttons that were pressed outside of a fight.
    """

    def __init__(self, profile, options, game, facts):
        super().__init__(profile, options)
        self.game, self.facts = game, facts
        self.at = "title"
        self.has_boss = self.is_fog_open = True
        self.needs_forward = self.is_lock_lost = False
        self.load_s, self.death_s, self.defeat_s = LOAD_S, DEATH_S, 0.0
        self._defeat_in_s = math.inf
        self.shown = {}
        self.n_loads = 0
        self.keys = []
        self._down = []
        self._since_s = 0.0
        self._is_fightable = self._has_arrived = False
        self.graves = 0
        self._bases = self.places.bases
        self._slot = self._boss_id = None
        self.flags = make_flags(game, self.process, self._bases, profile)
        points = load_warp_points(game)
        self._home = {points.id_of(name) for name in facts.warp_points}
        self.put(LAST_REST[game], points.id_of(facts.warp_points[0]))
        self.put_stats(facts.player_stats)
        self._change("title")
        self._publish()

    # --- simulation -----------------------------------------------------------------------------------------

    def rest_elsewhere(self):
        """Set the last bonfire to one far away."""
        self.put(LAST_REST[self.game], load_warp_points(self.game).id_of(OTHER_REST[self.game]))

    def put_stats(self, stats):
        """Set stats of the player, by name."""
        for name, value in stats.items():
            self.put(f"player.{name}", value)

    def be_in_fight(self):
        """Start in the fight, as if a person played it."""
        self.fight.begin()
        self._change("fight")
        self._publish()

    def pass_time(self, seconds):
        """Apply written values, simulate, and write to memory."""
        self._mapped.apply_writes(self.fight)
        self._live(seconds)
        self._publish()

    def _publish(self):
        self.on_advance()
        self._mapped.publish(self.fight)
        self._show()

    def _change(self, at):
        self.at, self._since_s = at, 0.0
        self.fight.stage = {"title": "loading", "loading": "loading", "dead": "lost", "won": "won"}.get(at, "fighting")

    def _live(self, seconds):
        if self.at == "fight":
            if "lock_on" in self._pressed():
                self.is_lock_lost = False
                self.fight.duel.lock_on = 1
            FakeArena.pass_time(self, seconds)
            if self.is_lock_lost:
                self.fight.duel.lock_on = 0
            if self.fight.stage == "lost":
                self._change("dead")
            elif self.fight.stage == "won":
                self.win()
            return
        self._remember_defeat(seconds * self.fight.speed)
        self._down = self._pressed()
        self._n_events = len(self.input.events)
        self.keys += self._down
        self._since_s += seconds * self.fight.speed
        if self.fight.no_death:
            self.fight.duel.p_hp = max(self.fight.duel.p_hp, 1.0)
        if self.at in ("outside", "fog", "won") and self.fight.duel.p_hp <= 0.0:
            self._change("dead")
        getattr(self, f"_live_{self.at}")()
        if self.is_lock_lost:
            self.fight.duel.lock_on = 0

    def _pressed(self):
        events = [] if self.is_deaf else self.input.events[self._n_events :]
        return [self._buttons[key] for key, is_press in events if is_press and key in self._buttons]

    def _live_title(self):
        if "interact" in self._down:
            self.load()

    def _live_dead(self):
        if self._since_s >= self.death_s:
            self.graves = self._read("world.untended_graves", 0)
            self.load()

    def _live_won(self):
        """Do nothing."""

    def _live_loading(self):
        if self._since_s >= self.load_s:
            self.fight.begin()
            is_home = int(self.table.read(LAST_REST[self.game])) in self._home
            self._stand(self._home_m if is_home else ELSEWHERE)
            self._change("outside")
            self._has_arrived = True
            self._is_fightable = self._is_to_be_fought()

    def _live_outside(self):
        held = {self._buttons.get(key) for key in self.input.held}
        d, fog = self.fight.duel, self._in_physics(self.facts.poses.fog_wall.position_m)
        is_near = math.dist((d.p_x, d.p_y, d.p_z), fog) <= REACH_M
        is_asked = "interact" in self._down and (not self.needs_forward or "forward" in held | set(self._down))
        if is_near and is_asked and self.is_fog_open and self._is_fightable:
            self._change("fog")

    def _live_fog(self):
        """The player walks through the fog, followed by a cutscene."""
        way = self._since_s / FOG_S
        fog, inside = self._in_physics(self.facts.poses.fog_wall.position_m), self.fight.boss.ground.player_pose
        self._stand([a + (b - a) * min(way, 1.0) for a, b in zip(fog, inside[:3], strict=True)])
        if way >= 1.0:
            d = self.fight.duel
            d.p_z, d.b_x, d.b_y = self.fight.boss.ground.floor_m, *self.fight.boss.ground.boss_pose[:2]
            self._change("fight")

    def load(self):
        """Begin a load, in any state."""
        self.n_loads += 1
        self._change("loading")

    def win(self):
        """Kill the boss."""
        self.fight.duel.b_hp = 0.0
        self._change("won")
        self._defeat_in_s = self.defeat_s
        self._remember_defeat(0.0)

    def leave(self):
        """Return to the title."""
        self._change("title")

    def base(self, name):
        """Return the address of the pointer of a base."""
        return self._bases[name]

    @property
    def _home_m(self):
        bonfire = self.facts.poses.bonfire
        return bonfire.position_m if bonfire is not None else BONFIRE

    def _in_physics(self, position):
        is_block = self.facts.frame == "player.block_position"
        return [a + b for a, b in zip(position, BLOCK_ORIGIN_M if is_block else (0, 0, 0), strict=True)]

    def _stand(self, position):
        d = self.fight.duel
        d.p_x, d.p_y, d.p_z = position

    # --- saved state ----------------------------------------------------------------------------------------

    def _remember_defeat(self, passed_s):
        self._defeat_in_s -= passed_s
        if self._defeat_in_s <= 0.0:
            self.flags.set(self.facts.defeat_flag, True)
            self._defeat_in_s = math.inf

    def _is_to_be_fought(self):
        wanted = {**self.facts.encounter, "world.untended_graves": 0}
        values = {name: self._read(name, value) for name, value in wanted.items() if name != "world.untended_graves"}
        values["world.untended_graves"] = self.graves
        return not self.flags.is_set(self.facts.defeat_flag) and values == wanted

    def _read(self, name, otherwise):
        return self.table.read(name) if name in self.profile.attributes else otherwise

    # --- memory ---------------------------------------------------------------------------------------------

    def _show(self):
        """Write attributes that the built-in fight does not have."""
        self.put("game.save_slot", -1 if self.at == "title" else 0)
        is_cutscene = self.at == "fog" and self._since_s > FOG_S / 2
        self.put("game.cutscene", CUTSCENE[self.game][is_cutscene])
        self.flags.lay_out()
        if self.fight.stage == "loading":
            return
        if self._has_arrived and "world.untended_graves" in self.profile.attributes:
            self.put("world.untended_graves", self.graves)
        self._has_arrived = False
        for name in IN_CONTROL[self.game]:
            self.put(name, self.at in ("outside", "fight", "won"))
        is_there = self.at in ("fight", "dead") or (self.at == "won" and self._since_s < GONE_S)
        self._show_boss(is_there=is_there and self.has_boss)
        if is_there and self.has_boss:
            for name, value in self.shown.items():
                self.put(name, value)

    def _show_boss(self, *, is_there):
        if self.game == "elden_ring":
            self._show_entity(is_there=is_there)
            return
        attribute = self.profile.attributes["boss.hp"]
        owner = self.pointer(self.pointer(self._bases[attribute.base]) + attribute.offsets[0])
        slot = owner + attribute.offsets[1]
        if self._slot is None or self._slot[0] != slot or self.pointer(slot):
            self._slot = slot, self.pointer(slot)
        self.process.write(slot, struct.pack("<Q", self._slot[1] if is_there else 0))

    def _show_entity(self, *, is_there):
        version = self.profile.process.versions[0]
        entity = next(way for way in variants_of(self.profile.entities["boss"]) if is_for(self.profile, way, version))
        world = self.pointer(self._bases[entity.base])
        begin, end = (self.pointer(world + offsets[0]) for offsets in (entity.begin, entity.end))
        if self._boss_id is None or self._boss_id[0] != begin:
            place = find_entity(self.process, "boss", entity, begin, end)
            self._boss_id = begin, self.pointer(begin + place * entity.stride) + entity.id_offsets[0]
        self.process.write(self._boss_id[1], struct.pack("<I", entity.id if is_there else 1))

    def pointer(self, address):
        """Return the pointer at an address."""
        return struct.unpack("<Q", self.process.read(address, 8))[0]


class SoulsSession(MaskedSession):
    """A session with a simulated world, which begins at its title.

    Args:
        game: ``dark_souls_3`` or ``elden_ring``.
        boss: Name of the boss.
        arrange: Called with the world at each start of the game, to cause faults.
        is_scaled: Whether it has a scaled clock.
        version: Version of the game; "" for the first one that the profile lists.
        facts_of: Changes to facts of attributes in the profile, by attribute.

    Attributes:
        arrange: See above.
        facts: Facts of the boss in this world.
    """

    def __init__(self, game, boss, arrange=None, *, is_scaled=False, version="", facts_of=None):
        self._name, self.arrange, self._version = game, arrange, version
        self._is_scaled = is_scaled
        self.facts = facts_of_stand_in(game, boss)
        self.arena = None
        profile = with_areas(with_boss(_load_profile(game), self.facts))
        every = profile.attributes
        others = {name: msgspec.structs.replace(every[name], **facts) for name, facts in (facts_of or {}).items()}
        profile = msgspec.structs.replace(profile, attributes={**every, **others})
        if version in profile.process.versions:
            # The version of the memory layout.
            known = (version, *(other for other in profile.process.versions if other != version))
            profile = msgspec.structs.replace(profile, process=msgspec.structs.replace(profile.process, versions=known))
        LocalSession.__init__(self, profile, SessionOptions(), FakeOpener(self._start))

    def _start(self, profile, options):
        if self.arena is not None:
            self.arena.close()
        self.arena = SoulsWorld(profile, {"boss": "judge"}, self._name, self.facts)
        if self.arrange is not None:
            self.arrange(self.arena)
        info = fake_info(PID, profile.process.executable, WINDOW_PX, options)
        info = msgspec.structs.replace(info, version=self._version or profile.process.versions[0])
        game = FakeGame(self.arena, self.arena.table, options, info)
        return step_by_speed(game, self.arena) if self._is_scaled else game
