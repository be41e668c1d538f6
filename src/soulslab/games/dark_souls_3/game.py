"""Dark Souls III over a session.

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
from soulslab.games.event_flags import load_event_flags
from soulslab.games.flag_memory import FlagMemory
from soulslab.games.souls_game import MENU, SoulsGame
from soulslab.games.waiting import Patience, press_each
from soulslab.games.warp_points import load_warp_points
from soulslab.siphon.session import Session

GAME = "dark_souls_3"
#: As the game orders them (SoulsGym 1.1.0, PlayerStats).
STATS = (
    "vigor", "attunement", "endurance", "strength", "dexterity", "intelligence", "faith", "luck", "vitality", "level",
)  # fmt: skip
#: ``game.save_slot`` in the main menu, and ``game.cutscene`` during a cutscene (SoulsTAS).
NO_SLOT = -1
IN_CUTSCENE = -7


class DarkSouls3(SoulsGame):
    """The game; see `SoulsGame` for what it shares with Elden Ring.

    Positions are those of the physics, which player and bosses share: x, y, height, m.

    Args:
        session: Of the game.
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
        """Return another boss that the profile has attributes of: ``vordt``."""
        return Character(self.session, group, NamedAnimations(self.session, group))

    # --- what it shows --------------------------------------------------------------------------------------

    def _is_title(self) -> bool:
        return int(self.session.read("game.save_slot")) == NO_SLOT

    def _is_cutscene(self) -> bool:
        return self._has("game.cutscene", IN_CUTSCENE) or self._has("game.movie", True)

    def _has_control(self) -> bool:
        return all(self.session.snapshot(("player.in_control_1", "player.in_control_16")).values())

    # --- the window -----------------------------------------------------------------------------------------

    @property
    def window_px(self) -> tuple[int, int]:
        """Width and height that the game draws its window with."""
        seen = self.session.snapshot(("window.width_px", "window.height_px"))
        return int(seen["window.width_px"]), int(seen["window.height_px"])

    @window_px.setter
    def window_px(self, size: tuple[int, int]) -> None:
        width, height = size
        self.session.write({"window.width_px": width, "window.height_px": height})

    @property
    def window_mode(self) -> int:
        """How the window stands on the screen; which number is which nobody has published."""
        return int(self.session.read("window.mode"))

    @window_mode.setter
    def window_mode(self, mode: int) -> None:
        self.session.write({"window.mode": mode})

    # --- the menu -------------------------------------------------------------------------------------------

    def leave_world(self, keys: tuple[str, ...], patience: Patience = MENU) -> None:
        """Go from the world to the title, by keys.

        Which keys lead there nobody has published, and no attribute tells in which menu the game is.

        Args:
            keys: To press one after another, each for half a poll: ``("ESC", ...)``.
            patience: How long the title may take to come; its poll is the time for each key.

        Raises:
            WaitTimeoutError: The title did not come.
        """
        press_each(self.session, keys, patience.poll_s)
        self._await_title(patience)
