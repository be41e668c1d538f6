"""Elden Ring over a session.

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
from soulslab.games.character import Character
from soulslab.games.elden_ring.flag_tree import FlagTree
from soulslab.games.elden_ring.numbered_animations import NumberedAnimations
from soulslab.games.event_flags import load_event_flags
from soulslab.games.flag_memory import FlagMemory
from soulslab.games.souls_game import LOADED, SoulsGame
from soulslab.games.waiting import Patience
from soulslab.games.warp_points import load_warp_points
from soulslab.siphon.session import Session

GAME = "elden_ring"
#: As the game orders them (PlayerGameData of the public tools).
STATS = ("vigor", "mind", "endurance", "strength", "dexterity", "intelligence", "faith", "arcane", "level")
#: ``game.save_slot`` in the main menu (SoulsTAS).
NO_SLOT = -1
#: ``menu.quit_out`` that leaves for the main menu (eldenring-practice-tool).
QUIT_OUT = 1


class EldenRing(SoulsGame):
    """The game; see `SoulsGame` for what it shares with Dark Souls III.

    Positions are in one frame for player and boss, that of the physics: x, y, height, m. Its origin lies somewhere near
    and may move when the game loads another part of its world. What others tell of the world is in the frame of the
    block of the map that the player is in (``player.block_position``): `from_block` brings it over, for where the
    player is now.

    Args:
        session: Of the game.
    """

    name = GAME
    last_rest = "world.last_grace"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.player = Character(session, "player", NumberedAnimations(session, "player"), STATS)
        self.boss = Character(session, "boss", NumberedAnimations(session, "boss"))
        self.warp_points = load_warp_points(GAME)
        self.event_flags = FlagMemory(session, FlagTree(session), load_event_flags(GAME))

    # --- where things are -----------------------------------------------------------------------------------

    @property
    def block(self) -> int:
        """Number of the block of the map that the player is in."""
        return int(self.session.read("world.block"))

    @property
    def block_position_m(self) -> Position:
        """Where the player is in its block: x, y, height."""
        return from_memory(self.session.read("player.block_position"))

    @property
    def block_origin_m(self) -> Position:
        """Where the origin of the player's block is in the frame of the physics; the axes of both are the same."""
        seen = self.session.snapshot(("player.position", "player.block_position"))
        here, in_block = from_memory(seen["player.position"]), from_memory(seen["player.block_position"])
        return here[0] - in_block[0], here[1] - in_block[1], here[2] - in_block[2]

    def from_block(self, pose: Pose) -> Pose:
        """Return a pose of the player's block in the frame of the physics; angles are the same in both."""
        at, origin = pose.position_m, self.block_origin_m
        moved = (at[0] + origin[0], at[1] + origin[1], at[2] + origin[2])
        return msgspec.structs.replace(pose, position_m=moved)

    def pose_of(self, facts: BossFacts, name: str) -> Pose:
        """Return a pose that is known of a boss, in the frame of the physics, whichever its file is in.

        Args:
            facts: What is known of it; the player has to be in the block that its file means.
            name: Of the pose: ``fog_wall``.

        Raises:
            MissingFactError: Nobody has published it.
        """
        pose = facts.pose(name)
        return self.from_block(pose) if facts.frame == "player.block_position" else pose

    # --- what it shows --------------------------------------------------------------------------------------

    def _is_title(self) -> bool:
        return int(self.session.read("game.save_slot")) == NO_SLOT

    def _is_cutscene(self) -> bool:
        return self._has("game.cutscene", True)

    def _has_control(self) -> bool:
        return all(self.session.snapshot(("player.in_control_5", "player.in_control_6")).values())

    @property
    def window_px(self) -> tuple[int, int]:
        """Width and height of the window, as the bridge sees it; where the game keeps them nobody has published."""
        return self.session.info.window_px

    # --- the menu -------------------------------------------------------------------------------------------

    def leave_world(self, patience: Patience = LOADED) -> None:
        """Go from the world to the title, as the game's own menu does when one quits.

        Raises:
            WaitTimeoutError: The title did not come.
        """
        self.session.write({"menu.quit_out": QUIT_OUT})
        self._await_title(patience)
