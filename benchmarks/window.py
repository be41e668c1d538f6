"""``python -m benchmarks window``: time per frame of the built-in game, and steps per second of its process."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from benchmarks.child_process import child_environment
from benchmarks.result import Result, Row
from benchmarks.timing import interleaved, seconds
from soulslab.arena.binding import Binding
from soulslab.arena.live_fight import BUTTONS, PRESSES, LiveFight
from soulslab.arena.records import DECISION_S
from soulslab.errors import LaunchError
from soulslab.games.arena import PROFILE_PATH
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.local import LocalSession, open_session
from soulslab.siphon.process.private_display import PrivateDisplay
from soulslab.siphon.profile import load_profile
from soulslab.siphon.session import SessionOptions, Step

if TYPE_CHECKING:
    from soulslab.arena.window.memory.profile_memory import ProfileMemory

SIZES_PX: Final = ((800, 450), (320, 180))
PARTS: Final = ("ticks", "memory", "scene", "draw")
PIXELS: Final = FrameFormat(84, 84, is_grey=True)
#: Attributes of the observation of a duel.
ATTRIBUTES: Final = (
    "player.hp", "player.sp", "player.position", "player.angle", "player.animation", "player.animation_time",
    "boss.hp", "boss.position", "boss.angle", "boss.animation", "boss.animation_time", "camera.position",
    "camera.direction", "lock_on", "phase", "game.stage", "fight.tick",
)  # fmt: skip
# The window needs a separate process: panda3d reads the display from the environment once.
_PAINTER = """
import sys, msgspec
from benchmarks.window import WindowBenchSettings, paint
settings = msgspec.json.decode(sys.argv[1], type=WindowBenchSettings)
size = int(sys.argv[2]), int(sys.argv[3])
sys.stdout.buffer.write(msgspec.json.encode(paint(settings, size)))
"""
PAINT_DEADLINE_S: Final = 300.0


class WindowBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        boss: Name of the boss.
        n_pictures: Frames of each size.
        n_steps: Steps per measurement.
        n_rounds: Number of measurements; the table contains their median.
        seed: Seed of the fight and the keys.
    """

    boss: str = "judge"
    n_pictures: int = 1200
    n_steps: int = 300
    n_rounds: int = 5
    seed: int = 0

    @classmethod
    def quick(cls) -> WindowBenchSettings:
        """Return settings for rough numbers."""
        return cls(n_pictures=240, n_steps=50, n_rounds=2)


def measure_window(settings: WindowBenchSettings) -> list[Result]:
    """Draw frames without waiting, and step the process of the game.

    Raises:
        SiphonError: Xvfb is not installed, or the game does not start.
    """
    with PrivateDisplay(SIZES_PX[0]) as display:
        painted = [_picture_row(settings, size, display) for size in SIZES_PX]
    title = f"One picture of each tick, software renderer, {settings.n_pictures} pictures (ms, mean; p95 of all)"
    stepped = f"The game in lockstep, {settings.n_steps} steps of 0.1 s, {len(ATTRIBUTES)} values"
    return [Result(title=title, rows=painted), Result(title=stepped, rows=_step_rows(settings))]


# --- pictures -----------------------------------------------------------------------------------------------


def _picture_row(settings: WindowBenchSettings, size_px: tuple[int, int], display: PrivateDisplay) -> Row:
    command = [sys.executable, "-c", _PAINTER, msgspec.json.encode(settings).decode(), *map(str, size_px)]
    environment = child_environment(**display.environment())
    done = subprocess.run(command, env=environment, capture_output=True, timeout=PAINT_DEADLINE_S, check=False)
    if done.returncode:
        raise LaunchError(f"the window could not be measured:\n{done.stderr.decode(errors='replace')}")
    took_ms = np.array(msgspec.json.decode(done.stdout))
    whole = took_ms.sum(axis=1)
    return {
        "window": f"{size_px[0]}x{size_px[1]}",
        **{part: float(took_ms[:, i].mean()) for i, part in enumerate(PARTS)},
        "all": float(whole.mean()),
        "p95": float(np.percentile(whole, 95)),
        "pictures/s": float(1e3 / whole.mean()),
    }


def paint(settings: WindowBenchSettings, size_px: tuple[int, int]) -> list[list[float]]:
    """Play and draw a fight without waiting.

    Args:
        settings: Settings of the benchmark.
        size_px: Width and height of the window.

    Returns:
        Milliseconds of each of `PARTS`, for each frame.
    """
    from soulslab.arena.window.game_loop import new_fight  # noqa: PLC0415  (it needs panda3d)
    from soulslab.arena.window.memory.profile_memory import ProfileMemory  # noqa: PLC0415
    from soulslab.arena.window.panda_window import Window  # noqa: PLC0415
    from soulslab.arena.window.scene import Scene  # noqa: PLC0415
    from soulslab.arena.window.settings import WindowSettings  # noqa: PLC0415

    window_settings = WindowSettings(boss=settings.boss, seed=settings.seed, size_px=size_px, renderer="software")
    profile = load_profile(PROFILE_PATH)
    binding = Binding(profile.duel, profile.attributes)
    game = new_fight(window_settings)
    rng = np.random.default_rng(settings.seed)
    took = []
    with ExitStack() as undo:
        memory = ProfileMemory(profile, binding, game)
        undo.callback(memory.close)
        window = Window(window_settings)
        undo.callback(window.close)
        scene = Scene(window.root, window.camera, game, size_px)
        _play(game, rng)
        for _ in range(settings.n_pictures):
            times = [time.perf_counter()]
            for part in (
                partial(_play, game, rng),
                partial(_publish, memory, game),
                partial(scene.show, game),
                window.draw,
            ):
                part()
                times.append(time.perf_counter())
            took.append((1e3 * np.diff(times)).tolist())
    return took


def _play(game: LiveFight, rng: np.random.Generator) -> None:
    """Play a tick with random buttons."""
    held = {BUTTONS[i] for i in np.flatnonzero(rng.random(len(BUTTONS)) < 0.3)}
    game.tick(held, [name for name in PRESSES if name in held])


def _publish(memory: ProfileMemory, game: LiveFight) -> None:
    memory.apply_writes(game)
    memory.publish(game)


# --- steps --------------------------------------------------------------------------------------------------


def _step_rows(settings: WindowBenchSettings) -> list[Row]:
    ways = {}
    with ExitStack() as stack:
        for width, height in SIZES_PX:
            size = f"{width}x{height}"
            options = {"boss": settings.boss, "seed": str(settings.seed), "size": size}
            chosen = SessionOptions(launch="always", display="private", options=options)
            game = stack.enter_context(open_session(load_profile(PROFILE_PATH), chosen))
            game.clock.pause()
            game.write({"player.no_death": True, "player.no_gravity": True})
            for label, frame in (("", None), (", 84x84 grey", PIXELS)):
                ways[f"{size}{label}"] = partial(_step, game, settings, frame)
        took_s = interleaved({label: partial(seconds, way) for label, way in ways.items()}, settings.n_rounds)
    return [
        {
            "window": label,
            "steps/s": settings.n_steps / median(times),
            "ms a step": 1e3 * median(times) / settings.n_steps,
            "game time / wall time": DECISION_S * settings.n_steps / median(times),
        }
        for label, times in took_s.items()
    ]


def _step(game: LocalSession, settings: WindowBenchSettings, frame: FrameFormat | None) -> None:
    """Step with random keys, after setting the boss to full health, so that the fight does not end."""
    game.write({"boss.hp": game.read("boss.max_hp")})
    rng = np.random.default_rng(settings.seed)
    keys = [game.profile.keys[name] for name in BUTTONS]
    held = [
        tuple(key for key, is_down in zip(keys, row, strict=True) if is_down)
        for row in rng.random((settings.n_steps, len(keys))) < 0.3
    ]
    for down in held:
        game.step(Step(held=down, advance_s=DECISION_S, attributes=ATTRIBUTES, frame=frame))
