"""Help for players and spectators: the list of keys, and a display of the buttons in use."""

from __future__ import annotations

from collections.abc import Mapping

from panda3d.core import NodePath

from soulslab.arena.live_fight import DIRECTIONS, PRESSES, LiveFight, buttons_of
from soulslab.arena.window.hud.layer import Label, Layer, rectangle
from soulslab.arena.window.stage.mood import Rgb

_PALE: Rgb = (0.90, 0.88, 0.82)
_GOLD: Rgb = (0.92, 0.78, 0.45)
_DARK = (0.03, 0.03, 0.04, 0.82)
#: A press lasts one tick; it is displayed for this long.
_PRESS_TICKS = 12
#: Display names of commands.
_WORDS = {"lock_on": "lock on", "light_attack": "light attack", "heavy_attack": "heavy attack"}
_SHORT = {"roll": "roll", "light_attack": "light", "heavy_attack": "heavy", "parry": "parry"}


class KeyList:
    """The list of keys.

    Args:
        layer: Parent layer.
        keys: Key of each command.

    Attributes:
        heading_z: Height of the heading above the keys.
    """

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
            Label(self.node, (0.4 * layer.text, z), layer.text, _PALE).show(words)
        self.node.hide()


class Buttons:
    """Display of the buttons in use: a cross of directions, and the buttons that are pressed.

    Args:
        layer: Parent layer.
    """

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


_OFF = (0.22, 0.22, 0.26, 0.8)


def _lamp(layer: Layer, frame: tuple[float, float, float, float], text: str) -> NodePath:
    lamp = rectangle(layer.node, frame, (0.72, 0.58, 0.28, 0.85), (0.95, 0.80, 0.45, 0.85))
    if text:
        middle = ((frame[0] + frame[1]) / 2, frame[2] + 0.28 * (frame[3] - frame[2]))
        Label(layer.node, middle, 0.9 * layer.text, (1.0, 1.0, 1.0), "centre").show(text)
    lamp.setColorScale(*_OFF)
    return lamp
