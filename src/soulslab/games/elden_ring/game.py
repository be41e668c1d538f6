"""Python interface to Elden Ring over a session.

::

    facts = load_boss_facts("elden_ring", "margit")
    with EldenRing(open_session(with_boss(load_profile(PROFILE_PATH), facts))) as game:
        game.player.hp, game.boss.hp
        game.teleport(game.from_block(facts.pose("fog_wall")))
"""

from __future__ import annotations

import msgspec

from soulslab.games.axes import Position, from_memory
from soulslab.games.boss_facts import BossFacts, Pose
from soulslab.games.character import Animation, Character
from soulslab.games.elden_ring.flag_tree import FlagTree
from soulslab.games.event_flags import FlagMemory, load_event_flags
from soulslab.games.souls_game import LOADED, SoulsGame
from soulslab.games.waiting import Patience
from soulslab.games.warp_points import load_warp_points
from soulslab.siphon.session import Session

GAME = "elden_ring"
#: In the order of the game (PlayerGameData of the public tools).
STATS = ("vigor", "mind", "endurance", "strength", "dexterity", "intelligence", "faith", "arcane", "level")
#: Value of ``game.save_slot`` in the main menu (SoulsTAS).
NO_SLOT = -1
#: Value of ``menu.quit_out`` that returns to the main menu (eldenring-practice-tool).
QUIT_OUT = 1


class NumberedAnimations:
    """Reads the current animation (`soulslab.games.character.AnimationReader`).

    Args:
        session: Session of the game; ``[duel.player_animations]`` and ``[duel.boss_animations]`` of its profile map
            numbers to names.
        group: Attribute group of the character.
    """

    def __init__(self, session: Session, group: str) -> None:
        self._session = session
        self._attributes = tuple(f"{group}.{part}" for part in ("animation", "animation_time", "animation_length"))
        table = (session.profile.duel or {}).get(f"{group}_animations", {})
        self._names = {number: name for name, number in table.items()}

    def read(self) -> Animation:
        """See `AnimationReader.read`; all values are from one snapshot."""
        seen = self._session.snapshot(self._attributes)
        number, time_s, length_s = (seen[name] for name in self._attributes)
        name = self._names.get(int(number), "")
        return Animation(name=name, number=int(number), time_s=float(time_s), length_s=float(length_s))


class EldenRing(SoulsGame):
    """Elden Ring; see `SoulsGame` for the members shared with Dark Souls III.

    Positions of player and boss are in the coordinate system of the physics: x, y, height, in metres. Its origin is
    near the player and may move when the game loads another part of the world. Published positions are in the
    coordinate system of the map block that contains the player (``player.block_position``); `from_block` converts them
    for the current block.

    Args:
        session: Session of the game.
    """

    name = GAME
    last_rest = "world.last_grace"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.player = Character(session, "player", NumberedAnimations(session, "player"), STATS)
        self.boss = Character(session, "boss", NumberedAnimations(session, "boss"))
        self.warp_points = load_warp_points(GAME)
        self.event_flags = FlagMemory(session, FlagTree(session), load_event_flags(GAME))

    # --- positions ------------------------------------------------------------------------------------------

    @property
    def block(self) -> int:
        """Number of the map block that contains the player."""
        return int(self.session.read("world.block"))

    @property
    def block_position_m(self) -> Position:
        """Position of the player in its block: x, y, height."""
        return from_memory(self.session.read("player.block_position"))

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
        """Return a pose of a boss in the coordinate system of the physics.

        Args:
            facts: Facts about the boss; the player has to be in the block to which the file refers.
            name: Name of the pose: ``fog_wall``.

        Raises:
            MissingFactError: The pose is not published.
        """
        pose = facts.pose(name)
        return self.from_block(pose) if facts.frame == "player.block_position" else pose

    # --- screen ---------------------------------------------------------------------------------------------

    def _is_title(self) -> bool:
        return int(self.session.read("game.save_slot")) == NO_SLOT

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
        """Return from the world to the title screen, as the game's own menu does.

        Raises:
            WaitTimeoutError: The title screen did not appear.
        """
        self.session.write({"menu.quit_out": QUIT_OUT})
        self._await_title(patience)
