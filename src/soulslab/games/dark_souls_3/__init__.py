"""Dark Souls III over a session. The facts are in ``profile.toml``, from public sources and not checked on a real game.

docs/game_interfaces.md has an example.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from soulslab.errors import EntityNotFoundError
from soulslab.games.character import Animation, AttributeProperty, Character
from soulslab.games.facts import load_event_flags, load_warp_points
from soulslab.games.souls_game import MENU, FlagMemory, SoulsGame
from soulslab.games.waiting import Patience, press_each
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.session import Session

PROFILE_PATH = Path(__file__).parent / "profile.toml"
GAME = "dark_souls_3"

#: In the order of the game (SoulsGym 1.1.0, PlayerStats).
STATS = (
    "vigor", "attunement", "endurance", "strength", "dexterity", "intelligence", "faith", "luck", "vitality", "level",
)  # fmt: skip
#: Value of ``game.cutscene`` during a cutscene (SoulsTAS).
IN_CUTSCENE = -7

#: Prefixes of names that remain in memory after the animation has ended (SoulsGym 1.1.0).
LINGERING = ("SABlend", "Part")
ATTACK = "Attack"
IDLE = "IdleBattle"
NO_ATTACK = -1

FLAGS, WORLD = "event_flags", "field_area"
#: Offset of the table of groups in the flag manager; sizes of a group, of one thousand flags, and of a category.
GROUPS, GROUP_SIZE, THOUSAND_SIZE, CATEGORY_SIZE = 0x218, 0x18, 0x10, 0xA8
WORD_BITS = 32
#: Offset of the owner of the areas in the world; in it, offsets of the number of areas and of the list of areas.
OWNER, N_AREAS, AREAS = 0x10, 0x8, 0x10
#: An area: its size, and the offsets of its number, its number of blocks, and its list of blocks.
AREA_SIZE, AREA_NUMBER, N_BLOCKS, BLOCKS = 0x38, 0xB, 0x20, 0x28
#: A block: its size, and the offsets of its number (byte 2; byte 3 is the area) and of its category minus 1.
BLOCK_SIZE, BLOCK_NUMBER, CATEGORY = 0x70, 0x8, 0x20
#: Flags of areas from this number on belong to no place; neither do flags of area 0, block 0.
GLOBAL_AREA = 90
#: Upper bound on the number of areas; a larger number means that the pointer is stale.
MAX_AREAS = 100


class FlagTable(FlagMemory):
    """Event flags in the memory of Dark Souls III: one table for each loaded block of the world.

    The layout follows ReadEventFlag of SoulSplitter. The digits of a flag number give its location: in g.aa.b.t.nnn, g
    is the group, aa the area, b the block, t the thousand, and nnn the flag. The world data gives the category of the
    block.
    """

    def locate(self, number: int) -> ChainNumber:
        """Return the current memory location of a flag; see `FlagMemory.locate`."""
        category = self._category(number)
        group, thousand = number // 10_000_000 % 10, number // 1000 % 10
        word, place = divmod(number % 1000, WORD_BITS)
        # Words are little-endian; bits are counted from the most significant one.
        byte, bit = divmod(WORD_BITS - 1 - place, 8)
        entry = thousand * THOUSAND_SIZE + category * CATEGORY_SIZE
        offsets = (GROUPS, group * GROUP_SIZE, entry, word * WORD_BITS // 8 + byte)
        return ChainNumber(base=FLAGS, offsets=offsets, type="flag", bit=bit)

    def _category(self, number: int) -> int:
        """Return the category of the block that contains a flag."""
        area, block = number // 100_000 % 100, number // 10_000 % 10
        if area >= GLOBAL_AREA or (area, block) == (0, 0):
            return 0
        n_areas = self._read_integer(WORLD, "i32", OWNER, N_AREAS)
        if not 0 <= n_areas <= MAX_AREAS:
            raise EntityNotFoundError(f"event flag {number}", f"{n_areas} is not a possible number of areas", 0)
        for i in range(n_areas):
            if self._read_integer(WORLD, "u8", OWNER, AREAS, i * AREA_SIZE + AREA_NUMBER) != area:
                continue
            for j in range(self._read_integer(WORLD, "u8", OWNER, AREAS, i * AREA_SIZE + N_BLOCKS)):
                blocks = (OWNER, AREAS, i * AREA_SIZE + BLOCKS)
                found = self._read_integer(WORLD, "u32", *blocks, j * BLOCK_SIZE + BLOCK_NUMBER)
                if (found >> 24, found >> 16 & 0xFF) == (area, block):
                    return self._read_integer(WORLD, "i32", *blocks, j * BLOCK_SIZE + CATEGORY) + 1
        raise EntityNotFoundError(
            f"event flag {number}", f"block {block} of area {area} is not loaded; {n_areas} areas are", n_areas
        )


def true_name(name: str, *, is_over: bool, attack_id: int, next_attack_id: int) -> str:
    """Return the current animation of a boss for a name that may be out of date (SoulsGym 1.1.0, IudexAttackID).

    ``is_over`` is whether the time of the animation has reached its length. ``attack_id`` is -1 if the boss does not
    attack; ``next_attack_id`` is the number at an offset of 0x10 from it.
    """
    is_outdated = name.startswith(LINGERING) or (name.startswith(ATTACK) and is_over)
    if not is_outdated:
        return name
    number = attack_id if attack_id != NO_ATTACK else next_attack_id
    return IDLE if number == NO_ATTACK else f"{ATTACK}{number}"


def read_animation(session: Session, group: str) -> Animation:
    """Read the current animation of the character of an attribute group, with all values from one snapshot."""
    prefix = f"{group}."
    parts = ("animation", "animation_time", "animation_length", "animation_id", "attack_id", "next_attack_id")
    names = tuple(prefix + part for part in parts if prefix + part in session.profile.attributes)
    seen = {name.removeprefix(prefix): value for name, value in session.snapshot(names).items()}
    name, time_s, length_s = str(seen["animation"]), float(seen["animation_time"]), float(seen["animation_length"])
    if "attack_id" in seen:
        name = true_name(
            name,
            is_over=time_s >= length_s,
            attack_id=int(seen["attack_id"]),
            next_attack_id=int(seen.get("next_attack_id", NO_ATTACK)),
        )
    return Animation(name=name, number=int(seen.get("animation_id", -1)), time_s=time_s, length_s=length_s)


class DarkSouls3(SoulsGame):
    """Dark Souls III; see `SoulsGame` for the members shared with Elden Ring.

    Positions are in the coordinate system of the physics, for player and bosses: x, y, height, in metres.
    """

    name = GAME
    last_rest = "world.last_bonfire"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.player = Character(session, "player", partial(read_animation, session, "player"), STATS)
        self.boss = self.character("boss")
        self.warp_points = load_warp_points(GAME)
        self.event_flags = FlagTable(session, load_event_flags(GAME))

    def character(self, group: str) -> Character:
        """Return the character of another attribute group of the profile: ``vordt``."""
        return Character(self.session, group, partial(read_animation, self.session, group))

    # --- screen ---------------------------------------------------------------------------------------------

    def _is_cutscene(self) -> bool:
        return self._has("game.cutscene", IN_CUTSCENE) or self._has("game.movie", True)

    def _has_control(self) -> bool:
        return all(self.session.snapshot(("player.in_control_1", "player.in_control_16")).values())

    # --- the window -----------------------------------------------------------------------------------------

    @property
    def window_px(self) -> tuple[int, int]:
        """Width and height at which the game renders."""
        seen = self.session.snapshot(("window.width_px", "window.height_px"))
        return int(seen["window.width_px"]), int(seen["window.height_px"])

    @window_px.setter
    def window_px(self, size: tuple[int, int]) -> None:
        width, height = size
        self.session.write({"window.width_px": width, "window.height_px": height})

    window_mode = AttributeProperty("window.mode", int)
    """Display mode of the window; the meaning of the numbers is not published."""

    # --- the menu -------------------------------------------------------------------------------------------

    def leave_world(self, keys: tuple[str, ...], patience: Patience = MENU) -> None:
        """Return from the world to the title screen by pressing keys one after another; raises `WaitTimeoutError`.

        The keys that lead there are not published, and no attribute says which menu is open. The poll interval is the
        time for each key, which is down during its first half.
        """
        press_each(self.session, keys, patience.poll_s)
        self._await_screen("the title", ("title",), patience)
