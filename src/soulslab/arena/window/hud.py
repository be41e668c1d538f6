"""The overlay of the window: bars, the lock-on marker, messages, the list of keys, and the buttons in use.

It is a plane in front of the lens. The unit is half the picture's height: z is from -1 (bottom) to 1, x from -aspect to
aspect. It is attached to the camera, so that a picture needs only one render pass.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

import msgspec
import numpy as np
from panda3d.core import DynamicTextFont, NodePath, Point3, TextNode, TextProperties, TransparencyAttrib

from soulslab.arena.live_fight import DIRECTIONS, PRESSES, LiveFight, buttons_of
from soulslab.arena.window.stage.atmosphere import Rgb
from soulslab.arena.window.stage.baked_mesh import Mesh, texture_of
from soulslab.arena.window.stage.camera import OPENING_RAD, boss_height_m

#: Line height of the smallest readable text, in pixels.
_LEAST_TEXT_PX = 10.5
_TEXT = 0.062
_ALIGN = {"left": TextNode.ALeft, "right": TextNode.ARight, "centre": TextNode.ACenter}


class Layer:
    """The layer: x of its right edge, the line height of normal text, and the size of a pixel."""

    def __init__(self, camera: NodePath, size_px: tuple[int, int]) -> None:
        self.right = size_px[0] / size_px[1]
        self.text = max(_TEXT, _LEAST_TEXT_PX / (size_px[1] / 2))
        self.px = 2.0 / size_px[1]
        self.node: NodePath = camera.attachNewNode("hud")
        self.node.setPos(0.0, 1.0, 0.0)
        self.node.setScale(math.tan(OPENING_RAD / 2))
        self.node.setBin("fixed", 100)
        self.node.setDepthTest(False)
        self.node.setDepthWrite(False)
        self.node.setLightOff()
        self.node.setFogOff()


Frame = tuple[float, float, float, float]
"""Left, right, bottom, top."""


def add_rectangle(mesh: Mesh, frame: Frame, bottom: tuple[float, ...], top: tuple[float, ...]) -> None:
    """Add a rectangle with a vertical colour gradient."""
    left, right, low, high = frame
    points = np.array([[[left, 0.0, low], [right, 0.0, low]], [[left, 0.0, high], [right, 0.0, high]]])
    colours = np.array([[bottom, bottom], [top, top]])
    mesh.grid(points[:, ::-1], colours)


def rectangle(parent: NodePath, frame: Frame, bottom: tuple[float, ...], top: tuple[float, ...]) -> NodePath:
    """Make a rectangle as a separate node; a colour with an alpha below 1 is translucent."""
    mesh = Mesh()
    add_rectangle(mesh, frame, bottom, top)
    path = mesh.node(parent, "rectangle")
    path.setTwoSided(True)
    if len(bottom) == 4:
        path.setTransparency(TransparencyAttrib.MAlpha)
    return path


class Label:
    """A line of text at x and z of its baseline, whose layout is computed only when it changes."""

    def __init__(
        self, parent: NodePath, place: tuple[float, float], size: float, colour: Rgb, align: str = "left"
    ) -> None:
        self._node = TextNode("label")
        self._node.setTextColor(*colour, 1.0)
        self._node.setShadow(0.05, 0.05)
        self._node.setShadowColor(0.0, 0.0, 0.0, 0.85)
        self._node.setAlign(_ALIGN[align])
        self.path: NodePath = parent.attachNewNode(self._node)
        self.path.setScale(size)
        self.path.setPos(place[0], 0.0, place[1])
        self.text = ""

    def show(self, text: str) -> None:
        """Set the text."""
        if text != self.text:
            self.text = text
            self._node.setText(text)


def title(parent: NodePath, text: str, colour: Rgb, height: float) -> NodePath:
    """Make a line of large, widely spaced letters at the centre of the layer.

    ``height`` is the line height; a text that is wider than the picture is scaled down.
    """
    node = TextNode(text)
    node.setFont(_title_font())
    # The built-in font has no hair spaces, so whole spaces separate the letters.
    node.setText("    ".join(" ".join(word) for word in text.split(" ")))
    node.setTextColor(*colour, 1.0)
    node.setAlign(TextNode.ACenter)
    path = parent.attachNewNode(node.generate())
    # The size is set on an inner node, so that the caller can scale and move the returned one.
    holder = parent.attachNewNode(text)
    path.reparentTo(holder)
    path.setScale(height)
    path.setZ(-0.34 * height)
    holder.setTransparency(TransparencyAttrib.MAlpha)
    return holder


@cache
def _title_font() -> DynamicTextFont:
    """Return the built-in font at a resolution for large text."""
    font = TextProperties.getDefaultFont().makeCopy()
    font.setPixelsPerUnit(72)
    font.setPageSize(512, 512)
    return font


#: A loss is shown for this long after the last hit; then it shrinks.
HOLD_TICKS = 45
DRAIN_PER_TICK = 0.012

_TRAIL: Rgb = (0.86, 0.70, 0.26)
_BACK, _RIM = (0.05, 0.04, 0.04), (0.42, 0.38, 0.30)


class Trail:
    """Recent loss of a bar. It is computed from game ticks and does not depend on the frame rate.

    ``share`` is the end of the lost part, as a share of the bar; ``lost`` is the loss that is still shown at full
    length.
    """

    def __init__(self) -> None:
        self.share = 0.0
        self.lost = 0.0
        self._value = 0.0
        self._tick = 0
        self._held_until = 0

    def begin(self, value: float, full: float, tick: int) -> None:
        """Start a fight without a loss."""
        self.share, self.lost, self._value = value / full, 0.0, value
        self._tick = self._held_until = tick

    def show(self, value: float, full: float, tick: int) -> None:
        """Update the value of the bar, with its maximum, at a tick of the game."""
        if value < self._value:
            self.lost += self._value - value
            self._held_until = tick + HOLD_TICKS
        draining = tick - max(self._held_until, self._tick)
        if draining > 0:
            self.share -= DRAIN_PER_TICK * draining
            self.lost = 0.0
        self.share = max(self.share, value / full)
        self._value, self._tick = value, tick


class BarStyle(msgspec.Struct, frozen=True):
    """Position and colour of a bar."""

    frame: Frame
    colour: Rgb
    has_trail: bool = True


class Bar:
    """A bar; its geometry changes only when its value changes."""

    def __init__(self, parent: NodePath, style: BarStyle, rim: float) -> None:
        left, right, low, high = style.frame
        back = Mesh()
        add_rectangle(back, (left - rim, right + rim, low - rim, high + rim), _RIM, _RIM)
        add_rectangle(back, style.frame, _BACK, _BACK)
        path = back.node(parent, "bar back")
        path.setTwoSided(True)
        self._left, self._width = left, right - left
        self._trail = self._stripe(parent, style.frame, _TRAIL) if style.has_trail else None
        self._fill = self._stripe(parent, style.frame, style.colour)
        self._shown = (-1.0, -1.0)

    def _stripe(self, parent: NodePath, frame: Frame, colour: Rgb) -> NodePath:
        _, _, low, high = frame
        red, green, blue = colour
        dark = (red * 0.62, green * 0.62, blue * 0.62)
        stripe = rectangle(parent, (0.0, 1.0, low, high), dark, colour)
        stripe.setX(self._left)
        return stripe

    def show(self, share: float, trail: float = 0.0) -> None:
        """Show a value and its recent loss, as shares of the bar."""
        if (share, trail) == self._shown:
            return
        self._shown = (share, trail)
        _stretch(self._fill, share * self._width)
        if self._trail is not None:
            _stretch(self._trail, trail * self._width if trail > share else 0.0)


def _stretch(stripe: NodePath, width: float) -> None:
    (stripe.show if width > 0.0 else stripe.hide)()
    stripe.setSx(max(width, 1e-6))  # panda3d inverts the scale


DIED: Rgb = (0.68, 0.09, 0.08)
WON: Rgb = (0.95, 0.80, 0.42)
_SCREEN_TEXT: Rgb = (0.85, 0.82, 0.76)
#: End of a fight: ticks until its text appears, and until it is fully visible.
_WAIT_TICKS, _FADE_TICKS = 20, 50
_BANNER_TICKS, _BANNER_FADE_TICKS = 150, 30
_SCREEN_DARK = (0.02, 0.02, 0.025)


class Screens:
    """Full-screen messages; the boss's name is shown while a fight loads."""

    def __init__(self, layer: Layer, boss_name: str) -> None:
        self._lost = _End(layer, "YOU DIED", DIED)
        self._won = _End(layer, "VICTORY", WON)
        self._banner = _Banner(layer)
        right = layer.right + 0.1
        self._loading = rectangle(layer.node, (-right, right, -1.1, 1.1), _SCREEN_DARK, _SCREEN_DARK)
        Label(self._loading, (0.0, 0.02), 1.6 * layer.text, _SCREEN_TEXT, "centre").show(boss_name)
        Label(self._loading, (0.0, -1.5 * layer.text), layer.text, (0.5, 0.48, 0.45), "centre").show("loading")

    def show(self, game: LiveFight) -> None:
        """Show the message of the game's present stage."""
        self._lost.show(game.stage_ticks if game.stage == "lost" else -1)
        self._won.show(game.stage_ticks if game.stage == "won" else -1)
        self._banner.show(game)
        (self._loading.show if game.stage == "loading" else self._loading.hide)()


class _End:
    """A text on a dark band that fades in."""

    def __init__(self, layer: Layer, text: str, colour: Rgb) -> None:
        self._node: NodePath = layer.node.attachNewNode(text)
        self._node.setTransparency(TransparencyAttrib.MAlpha)
        _band(self._node, layer.right + 0.1)
        self._title = title(self._node, text, colour, 0.30)

    def show(self, ticks: int) -> None:
        """Show its state a number of ticks after the end; -1 hides it."""
        share = min(max((ticks - _WAIT_TICKS) / _FADE_TICKS, 0.0), 1.0)
        if share == 0.0:
            self._node.hide()
            return
        self._node.show()
        self._node.setAlphaScale(share)
        self._title.setScale(1.0 + 0.0008 * ticks)


def _band(parent: NodePath, half_width: float) -> None:
    """Make a dark band with soft edges as one mesh: a software renderer would draw the overlap of two meshes twice."""
    across = np.abs(np.linspace(-1.0, 1.0, 64))
    image = np.zeros((64, 8, 4), np.uint8)
    image[..., 3] = np.rint(205 * np.clip((1.0 - across) / 0.55, 0.0, 1.0))[:, None]
    x, z = half_width, 0.34
    points = np.array([[[x, 0.0, -z], [-x, 0.0, -z]], [[x, 0.0, z], [-x, 0.0, z]]])
    uvs = np.array([[[1.0, 0.0], [0.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]])
    mesh = Mesh()
    mesh.grid(points, np.ones((2, 2, 3)), uvs)
    mesh.node(parent, "band", texture_of(image, repeats=False, has_mipmaps=False)).setTwoSided(True)


class _Banner:
    """Banner of the change of phase."""

    def __init__(self, layer: Layer) -> None:
        self._title = title(layer.node, "SECOND PHASE", _SCREEN_TEXT, 0.14)
        self._title.setZ(0.42)
        self._phase = 0
        self._n_fights = 0
        self._since = 0

    def show(self, game: LiveFight) -> None:
        """Show it for some time after the change of phase."""
        phase = int(game.duel.phase)
        if game.n_fights != self._n_fights or phase < self._phase:
            self._n_fights, self._phase, self._since = game.n_fights, phase, game.n_ticks - _BANNER_TICKS
        elif phase > self._phase:
            self._phase, self._since = phase, game.n_ticks
        ticks = game.n_ticks - self._since
        if ticks >= _BANNER_TICKS or game.stage != "fighting":
            self._title.hide()
            return
        self._title.show()
        share = min(1.0, (ticks + 1) / _BANNER_FADE_TICKS, (_BANNER_TICKS - ticks) / _BANNER_FADE_TICKS)
        self._title.setAlphaScale(share)


_HEALTH: Rgb = (0.72, 0.13, 0.11)
_STAMINA: Rgb = (0.25, 0.60, 0.28)
_BOSS: Rgb = (0.70, 0.10, 0.10)
_PALE: Rgb = (0.92, 0.90, 0.85)
_KEY_TEXT: Rgb = (0.90, 0.88, 0.82)
_OFF = (0.22, 0.22, 0.26, 0.8)
_GOLD: Rgb = (0.92, 0.78, 0.45)
_DARK = (0.03, 0.03, 0.04, 0.82)
#: A press lasts one tick; it is displayed for this long.
_PRESS_TICKS = 12
#: Display names of commands.
_WORDS = {"lock_on": "lock on", "light_attack": "light attack", "heavy_attack": "heavy attack"}
_SHORT = {"roll": "roll", "light_attack": "light", "heavy_attack": "heavy", "parry": "parry"}


class HudOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Optional parts of the overlay: the list of keys, and the buttons in use for watching a policy."""

    keys: Mapping[str, str] | None = None
    has_buttons: bool = False


class Hud:
    """The overlay of the window.

    `show` shows the list of keys if ``is_help_shown``, and above it the line ``notice``, such as "paused".
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
        self.notice = ""
        self.is_help_shown = False

    def close(self) -> None:
        """Remove the overlay from the camera."""
        self._layer.node.removeNode()

    def show(self, game: LiveFight) -> None:
        """Show the present state of the fight; the camera has to be placed before."""
        self._notice.show(self.notice)
        if self._key_list is not None:
            (self._key_list.node.show if self.is_help_shown else self._key_list.node.hide)()
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


class KeyList:
    """The list of the key of each command; ``heading_z`` is the height of the heading above the keys."""

    def __init__(self, layer: Layer, keys: Mapping[str, str]) -> None:
        n_rows = len(keys) + 2
        step = min(1.35 * layer.text, 1.9 / n_rows)
        half_x, half_z = 7.5 * layer.text, 0.5 * step * n_rows
        self.heading_z = half_z - 1.1 * step
        self.node: NodePath = rectangle(layer.node, (-half_x, half_x, -half_z, half_z), _DARK, _DARK)
        for i, (command, key) in enumerate(keys.items()):
            z = half_z - (i + 2) * step - 0.1 * layer.text
            Label(self.node, (-0.8 * layer.text, z), layer.text, _GOLD, "right").show(key.replace("_", " ").lower())
            words = _WORDS.get(command, command.replace("_", " "))
            Label(self.node, (0.4 * layer.text, z), layer.text, _KEY_TEXT).show(words)


class Buttons:
    """Display of the buttons in use: a cross of directions, and the buttons that are pressed."""

    def __init__(self, layer: Layer) -> None:
        size = 1.5 * layer.text
        # Above the text at the boss's bar.
        x, z = layer.right - 4.6 * layer.text, -0.72 + 1.5 * layer.text + 2.4 * size
        places = {"forward": (0, 1), "left": (-1, 0), "backward": (0, 0), "right": (1, 0)}
        self._lamps: dict[str, NodePath] = {}
        for way in DIRECTIONS:
            column, row = places[way]
            left, low = x + column * size, z + row * size
            self._lamps[way] = _lamp(layer, (left, left + 0.88 * size, low, low + 0.88 * size), "")
        for i, press in enumerate(PRESSES):
            left, low = x + (i % 2 * 2 - 1.5) * 1.25 * size, z - (1.3 + i // 2) * size
            self._lamps[press] = _lamp(layer, (left, left + 2.3 * size, low, low + 0.88 * size), _SHORT[press])
        self._lit: frozenset[str] = frozenset()
        self._pressed_at = dict.fromkeys(PRESSES, -_PRESS_TICKS)

    def show(self, game: LiveFight) -> None:
        """Highlight the buttons in use."""
        buttons = buttons_of(game.action)
        for button in buttons:
            if button in self._pressed_at:
                self._pressed_at[button] = game.n_ticks
        recent = {name for name, tick in self._pressed_at.items() if 0 <= game.n_ticks - tick < _PRESS_TICKS}
        lit = frozenset(buttons) | recent
        for name in lit ^ self._lit:
            self._lamps[name].setColorScale(*((1, 1, 1, 1) if name in lit else _OFF))
        self._lit = lit


def _lamp(layer: Layer, frame: tuple[float, float, float, float], text: str) -> NodePath:
    lamp = rectangle(layer.node, frame, (0.72, 0.58, 0.28, 0.85), (0.95, 0.80, 0.45, 0.85))
    if text:
        middle = ((frame[0] + frame[1]) / 2, frame[2] + 0.28 * (frame[3] - frame[2]))
        Label(layer.node, middle, 0.9 * layer.text, (1.0, 1.0, 1.0), "centre").show(text)
    lamp.setColorScale(*_OFF)
    return lamp
