"""Python interface to Dark Souls III over a session.

::

    with DarkSouls3(open_session(load_profile(PROFILE_PATH))) as game:
        game.player.hp, game.boss.animation.name
        game.allowed.attacks = False
        game.teleport(load_boss_facts("dark_souls_3", "iudex").pose("fog_wall"))
"""

from __future__ import annotations

from soulslab.games.character import Character
from soulslab.games.dark_souls_3.flag_table import FlagTable
from soulslab.games.dark_souls_3.named_animations import NamedAnimations
from soulslab.games.event_flags import FlagMemory, load_event_flags
from soulslab.games.souls_game import MENU, SoulsGame
from soulslab.games.waiting import Patience, press_each
from soulslab.games.warp_points import load_warp_points
from soulslab.siphon.session import Session

GAME = "dark_souls_3"
#: In the order of the game (SoulsGym 1.1.0, PlayerStats).
STATS = (
    "vigor", "attunement", "endurance", "strength", "dexterity", "intelligence", "faith", "luck", "vitality", "level",
)  # fmt: skip
#: Value of ``game.save_slot`` in the main menu, and of ``game.cutscene`` during a cutscene (SoulsTAS).
NO_SLOT = -1
IN_CUTSCENE = -7


class DarkSouls3(SoulsGame):
    """Dark Souls III; see `SoulsGame` for the members shared with Elden Ring.

    Positions are in the coordinate system of the physics, for player and bosses: x, y, height, in metres.

    Args:
        session: Session of the game.
    """

    name = GAME
    last_rest = "world.last_bonfire"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.player = Character(session, "player", NamedAnimations(session, "player"), STATS)
        self.boss = self.character("boss")
        self.warp_points = load_warp_points(GAME)
        self.event_flags = FlagMemory(session, FlagTable(session), load_event_flags(GAME))

    def character(self, group: str) -> Character:
        """Return the character of another attribute group of the profile: ``vordt``."""
        return Character(self.session, group, NamedAnimations(self.session, group))

    # --- screen ---------------------------------------------------------------------------------------------

    def _is_title(self) -> bool:
        return int(self.session.read("game.save_slot")) == NO_SLOT

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

    @property
    def window_mode(self) -> int:
        """Display mode of the window; the meaning of the numbers is not published."""
        return int(self.session.read("window.mode"))

    @window_mode.setter
    def window_mode(self, mode: int) -> None:
        self.session.write({"window.mode": mode})

    # --- the menu -------------------------------------------------------------------------------------------

    def leave_world(self, keys: tuple[str, ...], patience: Patience = MENU) -> None:
        """Return from the world to the title screen by pressing keys.

        The keys that lead there are not published, and no attribute says which menu is open.

        Args:
            keys: Keys to press one after another, each for half a poll interval: ``("ESC", ...)``.
            patience: Deadline for the title screen; its poll interval is the time for each key.

        Raises:
            WaitTimeoutError: The title screen did not appear.
        """
        press_each(self.session, keys, patience.poll_s)
        self._await_title(patience)
