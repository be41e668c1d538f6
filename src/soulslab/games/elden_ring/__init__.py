"""Elden Ring over a session. The facts are in ``profile.toml``, from public sources and not checked on a real game.

docs/game_interfaces.md has an example.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from soulslab.config import load_settings
from soulslab.errors import ConfigError, EntityNotFoundError
from soulslab.games.boss_facts import BossFacts, Pose
from soulslab.games.character import Animation, AttributeProperty, Character, Position, from_memory
from soulslab.games.facts import FactFile, Text, load_event_flags, load_warp_points
from soulslab.games.souls_game import LOADED, FlagMemory, SoulsGame
from soulslab.games.waiting import Patience
from soulslab.siphon.attributes.pointer_chains import ChainNumber
from soulslab.siphon.session import Session

PROFILE_PATH = Path(__file__).parent / "profile.toml"
KEYBINDS_PATH = Path(__file__).parent / "keybinds.toml"
GAME = "elden_ring"
#: In the order of the game (PlayerGameData of the public tools).
STATS = ("vigor", "mind", "endurance", "strength", "dexterity", "intelligence", "faith", "arcane", "level")
#: Value of ``menu.quit_out`` that returns to the main menu (eldenring-practice-tool).
QUIT_OUT = 1

BASE = "event_flags"
#: In the flag manager: offsets of the flags per block, the bytes per block, the contiguous blocks, and the tree head.
DIVISOR, BLOCK_BYTES, BLOCKS, HEAD = 0x1C, 0x20, 0x28, 0x38
#: In a node (the parent of the head is the root): neighbours, whether the node is the end, key, kind, and block.
LEFT, PARENT, RIGHT, IS_NIL, KEY, KIND, LOCATION = 0x0, 0x8, 0x10, 0x19, 0x20, 0x28, 0x30
#: Kinds of blocks: stored in the contiguous blocks, where the location is an index; empty. Others have an address.
CONTIGUOUS, EMPTY = 1, 2
#: Upper bound on the depth of the tree; a deeper tree means that the pointer is stale.
MAX_DEPTH = 64


class FlagTree(FlagMemory):
    """Event flags in the memory of Elden Ring: blocks of bits, in a binary search tree with the block number as key.

    The layout follows ReadEventFlag of SoulSplitter; the tree is a ``std::map`` of the compiler that built the game. A
    node is addressed by the pointer chain from the head of the tree, so any session can walk the tree.
    """

    def locate(self, number: int) -> ChainNumber:
        """Return the current memory location of a flag; see `FlagMemory.locate`."""
        divisor = self._read_integer(BASE, "i32", DIVISOR)
        if divisor <= 0:
            raise EntityNotFoundError(f"event flag {number}", "the game has not initialised its event flags yet", 0)
        block, index = divmod(number, divisor)
        node = self._find(block, number)
        kind = self._read_integer(BASE, "i32", *node, KIND)
        if kind == EMPTY:
            raise EntityNotFoundError(f"event flag {number}", f"block {block} holds no flags", 0)
        byte, bit = index // 8, 7 - index % 8
        if kind == CONTIGUOUS:
            byte += self._read_integer(BASE, "i32", BLOCK_BYTES) * self._read_integer(BASE, "i32", *node, LOCATION)
            offsets: tuple[int, ...] = (BLOCKS, byte)
        else:
            offsets = (*node, LOCATION, byte)
        return ChainNumber(base=BASE, offsets=offsets, type="flag", bit=bit)

    def _find(self, key: int, number: int) -> tuple[int, ...]:
        """Return the offsets of the pointer chain to the node of a block."""
        node: tuple[int, ...] = (HEAD, PARENT)
        for depth in range(MAX_DEPTH):
            if self._read_integer(BASE, "u8", *node, IS_NIL):
                problem = f"the tree has no block {key} (searched {depth} levels)"
                raise EntityNotFoundError(f"event flag {number}", problem, depth)
            found = self._read_integer(BASE, "u32", *node, KEY)
            if found == key:
                return node
            node = (*node, RIGHT if found < key else LEFT)
        problem = f"the tree of event flags is deeper than {MAX_DEPTH} levels, so its pointer is stale"
        raise EntityNotFoundError(f"event flag {number}", problem, MAX_DEPTH)


def read_animation(session: Session, group: str) -> Animation:
    """Read the current animation of the character of an attribute group, with all values from one snapshot.

    ``[duel.player_animations]`` and ``[duel.boss_animations]`` of the profile map names to numbers.
    """
    attributes = tuple(f"{group}.{part}" for part in ("animation", "animation_time", "animation_length"))
    seen = session.snapshot(attributes)
    number, time_s, length_s = (seen[name] for name in attributes)
    table = (session.profile.duel or {}).get(f"{group}_animations", {})
    name = next((name for name, one in table.items() if one == int(number)), "")
    return Animation(name=name, number=int(number), time_s=float(time_s), length_s=float(length_s))


class Keybind(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Input of an action of EldenGym: its index in the ``MultiBinary(13)`` action space, its key and mouse button."""

    index: Annotated[int, Meta(ge=0, le=63)]
    key: Text
    mouse: str = ""


class Keybinds(FactFile, frozen=True, kw_only=True):
    """The file ``keybinds.toml``: EldenGym's actions by name."""

    actions: Annotated[dict[str, Keybind], Meta(min_length=1)]


def load_keybinds(path: Path = KEYBINDS_PATH) -> Mapping[str, Keybind]:
    """Return the actions by name, ordered by index; raises `ConfigError` if the file is malformed."""
    actions = sorted(load_settings(Keybinds, path).actions.items(), key=lambda item: item[1].index)
    if [action.index for _, action in actions] != list(range(len(actions))):
        raise ConfigError("must be consecutive numbers from 0", path="actions.*.index", source=path)
    return dict(actions)


class EldenRing(SoulsGame):
    """Elden Ring; see `SoulsGame` for the members shared with Dark Souls III.

    Positions of player and boss are in the coordinate system of the physics: x, y, height, in metres. Its origin is
    near the player and may move when the game loads another part of the world. Published positions are in the
    coordinate system of the map block that contains the player (``player.block_position``); `from_block` converts them
    for the current block.
    """

    name = GAME
    last_rest = "world.last_grace"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.player = Character(session, "player", partial(read_animation, session, "player"), STATS)
        self.boss = Character(session, "boss", partial(read_animation, session, "boss"))
        self.warp_points = load_warp_points(GAME)
        self.event_flags = FlagTree(session, load_event_flags(GAME))

    # --- positions ------------------------------------------------------------------------------------------

    block = AttributeProperty("world.block", int, is_writable=False)
    """Number of the map block that contains the player."""
    block_position_m = AttributeProperty("player.block_position", from_memory, is_writable=False)
    """Position of the player in its block: x, y, height."""

    @property
    def block_origin_m(self) -> Position:
        """Origin of the player's block in the coordinate system of the physics; the axes of both are assumed equal."""
        seen = self.session.snapshot(("player.position", "player.block_position"))
        here, in_block = from_memory(seen["player.position"]), from_memory(seen["player.block_position"])
        return here[0] - in_block[0], here[1] - in_block[1], here[2] - in_block[2]

    def from_block(self, pose: Pose) -> Pose:
        """Convert a pose from the player's block to the coordinate system of the physics; angles are unchanged."""
        at, origin = pose.position_m, self.block_origin_m
        moved = (at[0] + origin[0], at[1] + origin[1], at[2] + origin[2])
        return msgspec.structs.replace(pose, position_m=moved)

    def pose_of(self, facts: BossFacts, name: str) -> Pose:
        """See `SoulsGame.pose_of`; the player has to be in the block to which the file of the boss refers."""
        pose = facts.pose(name)
        return self.from_block(pose) if facts.frame == "player.block_position" else pose

    # --- screen ---------------------------------------------------------------------------------------------

    def _is_cutscene(self) -> bool:
        return self._has("game.cutscene", True)

    def _has_control(self) -> bool:
        return all(self.session.snapshot(("player.in_control_5", "player.in_control_6")).values())

    @property
    def window_px(self) -> tuple[int, int]:
        """Width and height of the window from the session; the game's own attributes for it are not published."""
        return self.session.info.window_px

    # --- the menu -------------------------------------------------------------------------------------------

    def leave_world(self, patience: Patience = LOADED) -> None:
        """Return from the world to the title screen, as the game's own menu does; raises `WaitTimeoutError`."""
        self.session.write({"menu.quit_out": QUIT_OUT})
        self._await_screen("the title", ("title",), patience)
