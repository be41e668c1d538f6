"""Effects around the figures, as a pure function of the records.

Solids are in units of 1 m unless stated otherwise. Ribbons change for each picture: trails of blades, waves on the
ground, and the judge's tendril. The tendril grows from the judge's arm in the second phase: raised in the wind-up, then
thrown out and pulled in; it ends at the tip that `strikes.tip_at` returns.
"""

from __future__ import annotations

import math
from typing import Final, TypeAlias

import numpy as np
from panda3d.core import GeomNode, NodePath, OmniBoundingVolume, TransparencyAttrib

from soulslab.arena.blow import Blow, ease
from soulslab.arena.boss_file import Boss
from soulslab.arena.live_fight import LiveFight
from soulslab.arena.records import MAX_PROJECTILES, PARRIED, THROWN, Record
from soulslab.arena.window.figures.boss_poses import boss_pose, figure_of, strike_now
from soulslab.arena.window.figures.figure_nodes import GLOW, boss_colour, is_hit
from soulslab.arena.window.figures.knight_poses import knock_back_of, player_strike
from soulslab.arena.window.figures.rig import Vector, free_palm_of, tip_of
from soulslab.arena.window.figures.solid_mesh import VERTEX, Colour, Floats, Mesh, geometry, pack
from soulslab.arena.window.figures.strikes import BY_WEAPON, Strike, tip_at

#: A figure's coordinate system in the world: position on the ground, height of the ground, direction, and scale.
Stand: TypeAlias = tuple[float, float, float, float, float, float]

#: Ticks in which a trail fades after its attack, and the share of the attack that it shows at once.
FADE_TICKS, TRAIL_SHARE = 8, 0.6
SPARK_TICKS, DUST_TICKS, GLINT_TICKS = 12, 26, 18
KNIGHT_TRAIL: Colour = (0.85, 0.93, 1.0)
BOSS_TRAIL: Colour = (1.0, 0.86, 0.68)
#: Colour of the glint before an attack: white if it can be parried, red otherwise.
PARRY_GLINT, DANGER_GLINT = (1.0, 0.95, 0.75), (1.0, 0.2, 0.12)
N_TRAIL, N_WAVE = 12, 25
#: Seed of the random shapes, so that they are the same in every run.
SEED = 7
#: Number of points of the tendril, and position of its end at the end of the wind-up, in units of the body's scale.
N_POINTS: Final = 18
REARED: Final = np.array((-0.55, -0.95, 2.15))
#: Share of the wind-up after which the tendril is visible, and share of the recovery until which it is.
GROWS_FROM, GONE_AFTER = 0.2, 0.5
#: Half its width at the root and at the tip, in m, and the width of its glowing core as a share.
ROOT_M, TIP_M, CORE_SHARE = 0.22, 0.04, 0.25


def glowing(parent: NodePath, name: str, mesh: Mesh, *, is_clear: bool = True) -> NodePath:
    """Attach a self-illuminated mesh; with ``is_clear`` a colour scale can set its opacity."""
    node = mesh.node(name)
    node.setBounds(OmniBoundingVolume())
    node.setFinal(True)
    path = parent.attachNewNode(node)
    path.setLightOff(1)
    if is_clear:
        path.setTransparency(TransparencyAttrib.MAlpha)
        path.setDepthWrite(False)
        path.setBin("fixed", 12)
    return path


def dagger(glow: Colour) -> Mesh:
    """Return a thrown dagger that flies along y, with a tail of light."""
    mesh = Mesh().tube([(-0.1, 0.02), (0.02, 0.03)], (0.2, 0.2, 0.24), shape=(4, 1.0))
    mesh.tube([(0.02, 0.06), (0.5, 0.0)], (0.95, 0.97, 1.0), shape=(4, 0.4))
    mesh.tube([(-0.9, 0.0), (-0.12, 0.05)], glow, shape=(4, 1.0))
    return mesh


def sparks(colour: Colour, n_rays: int = 14) -> Mesh:
    """Return rays from a centre, to be scaled as they expand."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for _ in range(n_rays):
        way = rng.normal(size=3)
        x, y, z = (float(c) for c in way / np.linalg.norm(way))
        near, far = 0.35 + 0.3 * float(rng.random()), 0.8 + 0.4 * float(rng.random())
        mesh.spike((near * x, near * y, near * z), (far * x, far * y, far * z), 0.03, colour, (3, 1.0))
    return mesh


def star() -> Mesh:
    """Return a glint with four points in the plane of x and z, white so that it can be tinted."""
    mesh = Mesh()
    for long, wide, turn in ((1.0, 0.08, 0.0), (0.7, 0.06, math.pi / 2)):
        c, s = math.cos(turn), math.sin(turn)
        corners = [(-wide, 0.0), (0.0, -long), (wide, 0.0), (0.0, long)]
        mesh.polygon([(x * c - z * s, 0.0, x * s + z * c) for x, z in corners], (1.0, 1.0, 1.0), is_two_sided=True)
    return mesh


def dust() -> Mesh:
    """Return low dust clouds in a circle of 1 m, grey so that they can be tinted."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for i in range(6):
        turn, out = i * math.pi / 3, 0.25 + 0.4 * float(rng.random())
        size = 0.16 + 0.12 * float(rng.random())
        mesh.ball(
            (out * math.cos(turn), out * math.sin(turn), 0.1), (size, size, 0.7 * size), (0.75, 0.72, 0.68), (5, 3)
        )
    return mesh


def spikes(colour: Colour) -> Mesh:
    """Return a ring of spikes within a radius of 1 and a height of 1, to be scaled as they rise from the ground."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for i in range(18):
        turn = i * 2.399963  # the golden angle distributes them evenly
        out = 0.45 + 0.42 * math.sqrt(i / 17)
        height = 0.5 + 0.5 * float(rng.random())
        x, y = math.cos(turn), math.sin(turn)
        start, tip = (out * x, out * y, -0.05), ((out + 0.1) * x, (out + 0.1) * y, height)
        mesh.spike(start, tip, 0.045, colour, (4, 1.0))
    return mesh


def breath(colour: Colour, half_rad: float) -> Mesh:
    """Return shards that fly along y within a sector of radius 1."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for _ in range(70):
        turn = half_rad * (2.0 * float(rng.random()) - 1.0)
        out = math.sqrt(float(rng.random())) * 0.9
        x, y = -math.sin(turn), math.cos(turn)
        height = (2.0 * float(rng.random()) - 1.0) * 0.12 * out
        start, tip = (out * x, out * y, height), ((out + 0.1) * x, (out + 0.1) * y, height)
        mesh.spike(start, tip, 0.004 + 0.008 * out, colour, (3, 1.0))
    return mesh


def embers(colour: Colour) -> Mesh:
    """Return specks around a body of radius 1 and height 1."""
    rng = np.random.default_rng(SEED)
    mesh = Mesh()
    for _ in range(16):
        turn, out, height = (float(c) for c in rng.random(3))
        x, y = (0.5 + 0.6 * out) * math.cos(2 * math.pi * turn), (0.5 + 0.6 * out) * math.sin(2 * math.pi * turn)
        mesh.spike((x, y, height), (x, y, height + 0.05), 0.02, colour, (3, 1.0))
    return mesh


class Ribbon:
    """A translucent band between two lines of ``n_points`` points."""

    def __init__(self, parent: NodePath, n_points: int) -> None:
        self.n_points = n_points
        self._vertices = np.zeros(2 * n_points, VERTEX)
        self._vertices["normal"] = (0.0, 0.0, 1.0)
        triangles = []
        for i in range(n_points - 1):
            a, b = 2 * i, 2 * i + 1
            triangles += [(a, b, b + 2), (a, b + 2, a + 2)]
        self._node = GeomNode("ribbon")
        self._node.addGeom(geometry(self._vertices, np.array(triangles), is_dynamic=True))
        self._node.setBounds(OmniBoundingVolume())
        self._node.setFinal(True)
        self.path = parent.attachNewNode(self._node)
        self.path.setLightOff(1)
        self.path.setTwoSided(True)
        self.path.setDepthWrite(False)
        self.path.setTransparency(TransparencyAttrib.MAlpha)
        self.path.setBin("fixed", 10)

    def show(self, lines: tuple[Floats, Floats], colour: Colour, alphas: tuple[Floats, Floats]) -> None:
        """Show the band between two lines, (n_points, 3) each in m, with the opacity (n_points,) along each line."""
        places = self._vertices["place"]
        colours = self._vertices["colour"]
        for side in (0, 1):
            places[side::2] = lines[side]
            colours[side::2] = pack(np.broadcast_to(np.array(colour), (self.n_points, 3)), alphas[side])
        array = self._node.modifyGeom(0).modifyVertexData().modifyArray(0)
        memoryview(array).cast("B")[:] = self._vertices.tobytes()
        self.path.show()


def tendril_line(strike: Strike, blow: Blow, root: Floats) -> Floats | None:
    """Return the line of the tendril, (`N_POINTS`, 3) in the figure's axes and units, or None if it is not visible."""
    if blow.stage == "wind-up":
        grown = ease((blow.share - GROWS_FROM) / (1.0 - GROWS_FROM))
        tip = root + (REARED - root) * grown
        return _bent(root, tip, 0.5 * grown, 5.0 * blow.share) if grown > 0.0 else None
    out = 1.0 if blow.stage == "active" else 1.0 - ease(blow.share / GONE_AFTER)
    if out <= 0.0:
        return None
    angle, distance, height = tip_at(strike, blow.share if blow.stage == "active" else 1.0)
    tip = np.array((-math.sin(angle) * distance, math.cos(angle) * distance, height))
    return _bent(root, root + (tip - root) * out, 0.3 + 0.2 * (1.0 - out), 4.0 * blow.share)


def _bent(root: Floats, tip: Floats, rise: float, phase: float) -> Floats:
    """Return a line from root to tip that rises between them, with windings that increase with its length."""
    share = np.linspace(0.0, 1.0, N_POINTS)[:, None]
    way = tip - root
    aside = np.array((way[1], -way[0], 0.0)) / max(float(np.hypot(way[0], way[1])), 1e-6)
    belly = np.sin(math.pi * share)
    winding = 0.035 * float(np.linalg.norm(way)) * np.sin(3.0 * math.pi * share - phase)
    line: Floats = root + way * share + belly * (np.array((0.0, 0.0, rise)) + winding * aside)
    return line


class Tendril:
    """The node of the tendril: two crossed bands, so that it is visible from every side, and a glowing core."""

    def __init__(self, parent: NodePath, skin: Colour, core: Colour) -> None:
        looks = ((skin, 1.0), (skin, 1.0), (core, CORE_SHARE), (core, CORE_SHARE))
        self._bands = tuple((Ribbon(parent, N_POINTS), colour, size) for colour, size in looks)

    def show(self, line: Floats) -> None:
        """Show the tendril along a line, (`N_POINTS`, 3) in m."""
        along = np.gradient(line, axis=0)
        flat = np.hypot(along[:, 0], along[:, 1])[:, None] + 1e-6
        aside = np.stack([along[:, 1], -along[:, 0], np.zeros(N_POINTS)], axis=1) / flat
        above = np.cross(aside, along)
        above /= np.linalg.norm(above, axis=1, keepdims=True) + 1e-6
        half = np.linspace(ROOT_M, TIP_M, N_POINTS)[:, None]
        solid = np.ones(N_POINTS)
        for i, (ribbon, colour, size) in enumerate(self._bands):
            out = (above if i % 2 else aside) * half * size
            ribbon.show((line - out, line + out), colour, (solid, solid))


class Effects:
    """Projectiles, trails, waves, sparks, dust and glints; the axes of the parent node are those of the world."""

    def __init__(self, parent: NodePath, boss: Boss) -> None:
        self.root = parent.attachNewNode("effects")
        self._figure = figure_of(boss)
        glow = boss_colour(GLOW[self._figure.body])
        self._glow = glow
        self._trails = (Ribbon(self.root, N_TRAIL), Ribbon(self.root, N_TRAIL))
        self._wave = Ribbon(self.root, N_WAVE)
        make = glowing
        self._flying = [make(self.root, "dagger", dagger(glow), is_clear=False) for _ in range(MAX_PROJECTILES)]
        self._sparks = make(self.root, "sparks", sparks((1.0, 0.85, 0.45)))
        self._impact = make(self.root, "impact", sparks((1.0, 0.55, 0.4), 10))
        self._dust = make(self.root, "dust", dust())
        self._glint = make(self.root, "glint", star())
        self._glint.setBillboardPointEye()
        self._spikes = make(self.root, "spikes", spikes(glow))
        self._breath = make(self.root, "breath", breath(glow, _breath_half(boss)))
        self._tendril = Tendril(self.root, boss_colour("growth"), glow)
        self._embers = [make(self.root, "embers", embers(glow)) for _ in range(2)]
        self._nodes = self.root.getChildren()

    def show(self, game: LiveFight, d: Record, f: Record) -> None:
        """Show the present effects of a game, given plain copies of its records."""
        self._nodes.hide()
        self._show_projectiles(d, f)
        self._show_dust(d, f)
        if d.phase == 2 and game.stage != "won":
            self._show_embers(d, f)
        if game.stage == "fighting":
            self._show_knight_trail(d, f)
            self._show_boss_blow(d, f)
            self._show_sparks(d, f)

    def _show_projectiles(self, d: Record, f: Record) -> None:
        for i, path in enumerate(self._flying):
            if d.q_ticks[i] > 0:
                x, y, vx, vy = (float(value) for value in d.q_pose[i])
                heading = math.degrees(math.atan2(-vx, vy))
                path.setPosHpr(x, y, float(f.floor) + 1.15, heading, 0.0, 23.0 * float(d.q_ticks[i]))
                path.show()

    def _show_dust(self, d: Record, f: Record) -> None:
        share = float(d.p_ticks) / DUST_TICKS
        if d.p_anim != f.rolling or not 0.1 < share < 1.0:
            return
        # The dust stays where the roll began.
        back = float(f.animations[f.rolling].advance) * float(d.p_ticks)
        x, y = float(d.p_x - d.p_dx * back), float(d.p_y - d.p_dy * back)
        self._dust.setPos(x, y, float(f.floor))
        self._dust.setScale(0.35 + 0.75 * share)
        self._dust.setAlphaScale(0.4 * (1.0 - share))
        self._dust.show()

    def _show_embers(self, d: Record, f: Record) -> None:
        for i, path in enumerate(self._embers):
            share = (float(d.tick) / 80.0 + 0.5 * i) % 1.0
            size = self._figure.build.scale_m
            path.setPosHpr(float(d.b_x), float(d.b_y), float(f.floor) + size * 0.9 * share, 90.0 * i, 0.0, 0.0)
            path.setScale(0.8 * size, 0.8 * size, 1.3 * size)
            path.setAlphaScale(math.sin(math.pi * share))
            path.show()

    def _show_knight_trail(self, d: Record, f: Record) -> None:
        a = f.animations[d.p_anim]
        start, end = int(a.active_from), int(a.active_to)
        if start < 0 or not start <= d.p_ticks < end + FADE_TICKS or d.p_falling:
            return
        share = (int(d.p_ticks) - start) / max(end - start - 1, 1)
        stand = (float(d.p_x), float(d.p_y), float(d.p_z), float(d.p_fx), float(d.p_fy), 1.0)
        fade = 1.0 - max(int(d.p_ticks) - end, 0) / FADE_TICKS
        _show_trail(self._trails[0], player_strike(d, f), share, stand, (KNIGHT_TRAIL, 0.55 * fade))

    def _show_boss_blow(self, d: Record, f: Record) -> None:
        """Show the trail or the wave of the boss's attack, and the glint before it."""
        found = strike_now(self._figure, d, f)
        if found is None:
            return
        blow, strike = found
        now, start, end = int(d.b_ticks), int(blow.window.start), int(blow.window.end)
        tip = self._show_tendril(d, f, blow, strike) if strike.style == "lash" else None
        if start - GLINT_TICKS <= now < start - 4:
            self._show_glint(d, f, blow, (now - start + GLINT_TICKS) / (GLINT_TICKS - 4), tip)
        if not start <= now < end + FADE_TICKS:
            return
        share = (now - start) / max(end - start - 1, 1)
        fade = 1.0 - max(now - end, 0) / FADE_TICKS
        if strike.style in BY_WEAPON:
            colour = self._glow if d.phase == 2 else BOSS_TRAIL
            _show_trail(self._trails[1], strike, share, self._stand(d, f), (colour, 0.6 * fade))
        elif strike.style not in ("throw", "lash"):
            self._show_wave(d, f, strike, min(share, 1.0), fade)

    def _show_tendril(self, d: Record, f: Record, blow: Blow, strike: Strike) -> Vector | None:
        """Show the tendril of an attack; return its end in world coordinates."""
        build = self._figure.build
        pose = boss_pose(self._figure, d, f, "fighting", 0)
        line = tendril_line(strike, blow, np.array(free_palm_of(build, pose)) / build.scale_m)
        if line is None:
            return None
        line = _all_in_world(line, self._stand(d, f))
        self._tendril.show(line)
        return float(line[-1, 0]), float(line[-1, 1]), float(line[-1, 2])

    def _show_glint(self, d: Record, f: Record, blow: Blow, share: float, tip: Vector | None) -> None:
        """Show the glint at a tip, or at the tip of the weapon."""
        if tip is None:
            pose = boss_pose(self._figure, d, f, "fighting", 0)
            tip = _in_world(tip_of(self._figure.build, pose), (*self._stand(d, f)[:5], 1.0))
        x, y, z = tip
        size = 0.28 * self._figure.build.scale_m * math.sin(math.pi * share)
        self._glint.setPos(x, y, z)
        self._glint.setScale(max(size, 0.01))
        self._glint.setColorScale(*(PARRY_GLINT if blow.window.parry else DANGER_GLINT), 0.95)
        self._glint.show()

    def _show_wave(self, d: Record, f: Record, strike: Strike, share: float, fade: float) -> None:
        """Show the reach of an attack without a weapon: a wave on the ground, and its spikes or shards."""
        stand = self._stand(d, f)
        radius = strike.radius * (0.35 + 0.65 * share)
        half = min(strike.half_rad, math.pi)
        turn = np.linspace(strike.face_rad - half, strike.face_rad + half, N_WAVE)
        ring = np.stack([-np.sin(turn), np.cos(turn), np.full(N_WAVE, 0.03 / stand[5])], axis=1)
        inner, outer = ring * (0.55 * radius, 0.55 * radius, 1.0), ring * (radius, radius, 1.0)
        alpha = np.full(N_WAVE, 0.55 * fade)
        self._wave.show((_all_in_world(inner, stand), _all_in_world(outer, stand)), self._glow, (0.0 * alpha, alpha))
        x, y, floor, fx, fy, scale = stand
        heading = math.degrees(math.atan2(-fx, fy))
        if strike.style == "breath":
            self._breath.setPosHpr(x, y, floor + 0.75 * scale, heading, -4.0, 0.0)
            self._breath.setScale(radius * scale)
            self._breath.setAlphaScale(0.85 * fade)
            self._breath.show()
        elif half > 2.0:
            self._spikes.setPosHpr(x, y, floor, heading, 0.0, 0.0)
            self._spikes.setScale(radius * scale, radius * scale, 1.3 * min(3.0 * share, 1.0) * fade + 0.01)
            self._spikes.setAlphaScale(fade)
            self._spikes.show()

    def _show_sparks(self, d: Record, f: Record) -> None:
        wx, wy = float(d.b_x - d.p_x), float(d.b_y - d.p_y)
        way = max(math.hypot(wx, wy), 1e-6)
        if d.b_mode == PARRIED and d.b_ticks < SPARK_TICKS:
            _burst(self._sparks, _between(d, 0.75 / way), int(d.b_ticks), 1.1)
        elif is_hit(d, f):
            since = f.riposte_hit if d.b_mode == THROWN else f.animations[d.p_anim].active_from
            ticks = int(d.b_ticks if d.b_mode == THROWN else d.p_ticks) - int(since)
            _burst(self._sparks, _between(d, 1.0 - 0.9 * float(f.b_radius) / way), max(ticks, 0), 0.7)
        if d.p_ticks < SPARK_TICKS and knock_back_of(d, f) is not None:
            _burst(self._impact, _between(d, 0.3 / way), int(d.p_ticks), 0.8)

    def _stand(self, d: Record, f: Record) -> Stand:
        scale = self._figure.build.scale_m
        return float(d.b_x), float(d.b_y), float(f.floor), float(d.b_fx), float(d.b_fy), scale


def _breath_half(boss: Boss) -> float:
    """Return half the arc of a boss's breath: of its widest attack that is narrower than half a circle."""
    arcs = [window.arc_rad for move in boss.moves if "breath" in move.id for window in move.windows]
    return 0.5 * max(arcs, default=1.0)


def _between(d: Record, share: float) -> tuple[float, float, float]:
    """Return a point between player (0) and boss (1), at chest height."""
    return float(d.p_x + share * (d.b_x - d.p_x)), float(d.p_y + share * (d.b_y - d.p_y)), float(d.p_z) + 1.2


def _burst(path: NodePath, place: tuple[float, float, float], ticks: int, size: float) -> None:
    share = min((ticks + 1) / SPARK_TICKS, 1.0)
    path.setPos(*place)
    path.setScale(size * (0.25 + 0.75 * math.sqrt(share)))
    path.setH(40.0 * ticks)
    path.setAlphaScale(1.0 - share)
    path.show()


def _show_trail(ribbon: Ribbon, strike: Strike, share: float, stand: Stand, look: tuple[Colour, float]) -> None:
    """Show the path of the tip, brightest at its present position."""
    share = min(share, 1.0)
    shares = np.linspace(max(share - TRAIL_SHARE, 0.0), share, N_TRAIL)
    tips = np.array([tip_at(strike, float(moment)) for moment in shares])
    outer = np.stack([-np.sin(tips[:, 0]) * tips[:, 1], np.cos(tips[:, 0]) * tips[:, 1], tips[:, 2]], axis=1)
    if strike.style == "thrust":
        beside = np.array((math.cos(strike.face_rad), math.sin(strike.face_rad), 0.0)) * 0.06
        inner, outer = outer - beside, outer + beside
    else:
        inner = outer * 0.55 + np.array((0.0, 0.0, 1.1)) * 0.45
    colour, strength = look
    alpha = np.linspace(0.0, strength, N_TRAIL)
    ribbon.show((_all_in_world(inner, stand), _all_in_world(outer, stand)), colour, (0.15 * alpha, alpha))


def _in_world(place: tuple[float, float, float], stand: Stand) -> tuple[float, float, float]:
    (px, py, pz), (x, y, z, fx, fy, scale) = place, stand
    return x + scale * (px * fy + py * fx), y + scale * (py * fy - px * fx), z + scale * pz


def _all_in_world(places: Floats, stand: Stand) -> Floats:
    x, y, z, fx, fy, scale = stand
    turn = np.array([(fy, -fx, 0.0), (fx, fy, 0.0), (0.0, 0.0, 1.0)])
    world: Floats = scale * (places @ turn) + (x, y, z)
    return world
