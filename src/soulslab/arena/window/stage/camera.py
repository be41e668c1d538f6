"""The camera behind the knight: it looks along the camera direction of the rules and follows the player smoothly."""

from __future__ import annotations

import math

import numpy as np
from panda3d.core import NodePath

from soulslab.arena.knight_file import load_knight
from soulslab.arena.live_fight import LiveFight
from soulslab.arena.window.stage.baked_mesh import Floats

#: Vertical field of view. At 16:9 the horizontal one is 80 degrees.
OPENING_RAD = math.radians(50.0)
NEAR_M, FAR_M = 0.5, 400.0
#: Time constants of the camera's movement, in ticks (63 % of the way).
FOLLOW_TICKS = np.array([4.0, 4.0, 6.0, 18.0, 18.0, 18.0])
#: A fighter that moves farther than this in a tick was teleported, and the camera jumps as well.
JUMP_M = 1.0
#: Distance from the edge at which the camera watches a falling player.
EDGE_M = 0.6
#: Margin below the player's feet and above the boss's head.
_MARGIN_RAD = 0.11
#: Largest angle of a falling player below the centre of the picture.
_FALL_RAD = 0.22
#: Amplitude of the camera shake of each kind of hit.
_SHAKE_M = {"DamageLarge": 0.10, "DamageFling": 0.16, "DamageExLarge": 0.20, "DamageUpper": 0.16}
_SHAKE_TICKS = 20


def boss_height_m(radius_m: float) -> float:
    """Return the approximate height of a boss with this radius."""
    return 2.0 + 0.95 * radius_m


class CameraRig:
    """Places the camera for each picture; the coordinates of the camera's parent are those of the fight."""

    def __init__(self, camera: NodePath, game: LiveFight, aspect: float) -> None:
        self._camera = camera
        self.resize(aspect)
        camera.node().getLens().setNearFar(NEAR_M, FAR_M)
        animations = load_knight().animations
        self._shakes_m = np.array([_SHAKE_M.get(name, 0.0) for name in animations])
        self._n_ticks = game.n_ticks
        self._n_fights = -1
        self._aim: Floats = np.zeros(6)
        self._at: Floats = np.zeros(6)
        self._fighters: Floats = np.zeros(4)

    def resize(self, aspect: float) -> None:
        """Adapt the lens to a picture of this width over height; the vertical field of view stays the same."""
        across_rad = 2 * math.atan(math.tan(OPENING_RAD / 2) * aspect)
        self._camera.node().getLens().setFov(math.degrees(across_rad), math.degrees(OPENING_RAD))

    def show(self, game: LiveFight) -> tuple[float, float, float]:
        """Place the camera; return its position."""
        self._follow(game)
        x, y, z, back, up, pitch = (float(value) for value in self._at)
        d = game.duel
        cx, cy = float(d.c_fx), float(d.c_fy)
        floor = float(game.fight.floor)
        eye_z = max(z, floor - EDGE_M) + up
        # A falling player stays in view.
        foot = math.atan2(float(d.p_z) + 0.9 - eye_z, back)
        pitch = min(pitch, foot + _FALL_RAD)
        jolt = self._jolt(game)
        eye = (x - back * cx, y - back * cy, eye_z + jolt)
        self._camera.setPosHpr(*eye, math.degrees(math.atan2(-cx, cy)), math.degrees(pitch), 60.0 * jolt)
        return eye

    def _follow(self, game: LiveFight) -> None:
        """Move towards the target, which is assumed to have moved uniformly since the last picture.

        The path of the camera therefore hardly depends on the frame rate.
        """
        aim = _aim(game)
        n = game.n_ticks - self._n_ticks
        d = game.duel
        fighters = np.array([d.p_x, d.p_y, d.b_x, d.b_y])
        moved_m = float(np.abs(fighters - self._fighters).max())
        if game.n_fights != self._n_fights or n < 0 or moved_m > JUMP_M * max(n, 1):
            self._at = aim
        elif n > 0:
            # Solution of y' = (u - y) / T for linear u: a lag of v T, and a decaying rest of the initial difference.
            lag = (aim - self._aim) / n * FOLLOW_TICKS
            self._at = aim - lag + (self._at - self._aim + lag) * np.exp(-n / FOLLOW_TICKS)
        self._aim, self._fighters = aim, fighters
        self._n_ticks, self._n_fights = game.n_ticks, game.n_fights

    def _jolt(self, game: LiveFight) -> float:
        """Return the present displacement of the camera by a heavy hit, in m."""
        ticks = int(game.duel.p_ticks)
        strength = float(self._shakes_m[game.duel.p_anim])
        if strength == 0.0 or ticks >= _SHAKE_TICKS or game.stage == "loading":
            return 0.0
        return strength * math.exp(-ticks / 6.0) * math.sin(1.9 * ticks + 1.0)


def _aim(game: LiveFight) -> Floats:
    """Return the target of the camera: x, y, z of the player, distance back, height and pitch."""
    d, f = game.duel, game.fight
    radius = float(f.b_radius)
    away_x, away_y = float(d.b_x - d.p_x), float(d.b_y - d.p_y)
    gap = max(math.hypot(away_x, away_y) - radius, 0.0)
    # Near a boss, especially a large one, the camera moves back and up, to have both in the picture.
    near = math.exp(-((gap / 3.5) ** 2))
    back = 4.3 + 0.5 * radius + (0.5 + 0.5 * radius) * near
    up = 2.5 + 0.2 * radius + (0.4 + 0.35 * radius) * near
    ahead = max(away_x * float(d.c_fx) + away_y * float(d.c_fy), 0.0)
    # The player's feet are a little above the lower edge; the camera looks up farther only for a boss's head.
    feet = math.atan2(-up, back) + OPENING_RAD / 2 - _MARGIN_RAD
    head = math.atan2(boss_height_m(radius) - up, back + ahead) - OPENING_RAD / 2 + _MARGIN_RAD
    pitch = max(feet, head)
    z = max(float(d.p_z), float(f.floor) - EDGE_M)
    return np.array([float(d.p_x), float(d.p_y), z, back, up, pitch])
