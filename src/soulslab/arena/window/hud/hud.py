"""The overlay of the window as a whole."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from panda3d.core import NodePath, Point3

from soulslab.arena.live_fight import LiveFight
from soulslab.arena.window.hud.aids import Buttons, KeyList
from soulslab.arena.window.hud.bars import Bar, BarStyle, Trail
from soulslab.arena.window.hud.layer import Label, Layer, rectangle
from soulslab.arena.window.hud.screens import Screens
from soulslab.arena.window.stage.camera import boss_height_m
from soulslab.arena.window.stage.mood import Rgb

_HEALTH: Rgb = (0.72, 0.13, 0.11)
_STAMINA: Rgb = (0.25, 0.60, 0.28)
_BOSS: Rgb = (0.70, 0.10, 0.10)
_PALE: Rgb = (0.92, 0.90, 0.85)


class HudOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Optional parts of the overlay.

    Attributes:
        keys: Key of each command for the list of keys; None for no list.
        has_buttons: Whether the buttons in use are shown, for watching a policy.
    """

    keys: Mapping[str, str] | None = None
    has_buttons: bool = False


class Hud:
    """The overlay of the window.

    Args:
        camera: Camera that it is attached to.
        game: The fight that will be shown.
        size_px: Width and height of the picture.
        options: Optional parts.
    """

    def __init__(
        self, camera: NodePath, game: LiveFight, size_px: tuple[int, int], options: HudOptions | None = None
    ) -> None:
        options = options or HudOptions()
        self._camera = camera
        self._layer = layer = Layer(camera, size_px)
        rim = max(0.008, 0.7 * layer.px)
        left, top, high = -layer.right + 0.10, 0.92, max(0.042, 4 * layer.px)
        self._health = Bar(layer.node, BarStyle((left, left + 0.95, top - high, top), _HEALTH), rim)
        top -= high + 4 * rim
        self._stamina = Bar(layer.node, BarStyle((left, left + 0.75, top - high, top), _STAMINA, has_trail=False), rim)
        half = min(0.95, 0.8 * layer.right)
        self._boss = Bar(layer.node, BarStyle((-half, half, -0.86, -0.86 + high), _BOSS), rim)
        over = -0.86 + high + 0.35 * layer.text + rim
        Label(layer.node, (-half, over), layer.text, _PALE).show(game.boss.name)
        self._damage = Label(layer.node, (half, over), layer.text, _PALE, "right")
        dot = max(0.014, 1.4 * layer.px)
        self._dot = rectangle(layer.node, (-dot, dot, -dot, dot), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
        self._dot.setR(45)
        self._trails = (Trail(), Trail())
        self._n_fights = -1
        self._buttons = Buttons(layer) if options.has_buttons else None
        self._screens = Screens(layer, game.boss.name)
        self._key_list = KeyList(layer, options.keys) if options.keys is not None else None
        heading_z = self._key_list.heading_z if self._key_list is not None else 0.30
        self._notice = Label(layer.node, (0.0, heading_z), 1.3 * layer.text, _PALE, "centre")
        self._is_help_shown = False

    @property
    def is_help_shown(self) -> bool:
        """Whether the list of keys is shown; without a list, setting it has no effect."""
        return self._is_help_shown

    @is_help_shown.setter
    def is_help_shown(self, is_shown: bool) -> None:
        self._is_help_shown = is_shown
        if self._key_list is not None:
            if is_shown:
                self._key_list.node.show()
            else:
                self._key_list.node.hide()

    @property
    def notice(self) -> str:
        """The line that `notify` shows."""
        return self._notice.text

    def notify(self, text: str) -> None:
        """Show a line above the list of keys, such as that the game is paused; an empty text removes it."""
        self._notice.show(text)

    def close(self) -> None:
        """Remove the overlay from the camera."""
        self._layer.close()

    def show(self, game: LiveFight) -> None:
        """Show the present state of the fight; the camera has to be placed before."""
        self._show_bars(game)
        self._show_dot(game)
        self._screens.show(game)
        if self._buttons is not None:
            self._buttons.show(game)

    def _show_bars(self, game: LiveFight) -> None:
        d, f, tick = game.duel, game.fight, game.n_ticks
        values = ((float(d.p_hp), float(f.p_max_hp)), (float(d.b_hp), float(f.b_max_hp)))
        is_new = game.n_fights != self._n_fights
        self._n_fights = game.n_fights
        for trail, (value, full), bar in zip(self._trails, values, (self._health, self._boss), strict=True):
            (trail.begin if is_new else trail.show)(value, full, tick)
            bar.show(value / full, trail.share)
        self._stamina.show(float(d.p_sp) / float(f.p_max_sp))
        lost = self._trails[1].lost
        self._damage.show(f"{lost:.0f}" if lost >= 0.5 else "")

    def _show_dot(self, game: LiveFight) -> None:
        """Place the lock-on marker on the boss's chest if the camera is locked on it."""
        d, f = game.duel, game.fight
        if not d.lock_on or game.stage != "fighting":
            self._dot.hide()
            return
        chest = Point3(float(d.b_x), float(d.b_y), float(f.floor) + 0.55 * boss_height_m(float(f.b_radius)))
        seen = self._layer.node.getRelativePoint(self._camera.getParent(), chest)
        # The y axis of the layer is scaled, and starts at the layer's plane.
        depth = seen.y * self._layer.node.getSy() + 1.0
        if depth <= 0.3:
            self._dot.hide()
            return
        self._dot.show()
        self._dot.setPos(seen.x / depth, 0.0, seen.z / depth)
