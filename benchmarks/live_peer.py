"""Compare EldenGym 0.6.0 with our environment on one fight: the window with the memory layout of Elden Ring.

EldenGym runs unchanged, with its client (pysiphon), profile, keys and sleeps, against our server of the public
protocol. Its profile reads the boss with an injected library; our server finds the boss by the enemy's id.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import gymnasium
import msgspec
import numpy as np

from benchmarks.result import Result, Row
from benchmarks.siphon_server import running_server
from benchmarks.timing import with_progress
from soulslab.config.writing import dump_settings
from soulslab.envs.registration import ARENA_LIVE_ID
from soulslab.errors import MissingDependencyError
from soulslab.games import profile_path
from soulslab.siphon.profile import Profile, load_profile

MASK = "elden_ring"
WINDOW_PX = (800, 450)
#: Half a second of game time before a reset.
N_STEPS_BEFORE_RESET = 30
#: Time that EldenGym waits between keys and observation: one frame.
FRAME_MS = 1000 / 60
# The process ends when its standard input is closed. The game is started first; the client attaches to it.
_SERVER = """
import sys
from pathlib import Path
from soulslab.games import profile_path
from soulslab.games.arena import stand_in
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.public.service import PublicOptions, PublicService
from soulslab.siphon.rpc.server import ServerOptions, serve
from soulslab.siphon.session import SessionOptions
mask, size, recordings = sys.argv[1].split("|")
profile = stand_in(Path(mask))
screen_px = tuple(map(int, size.split("x")))
started = SessionOptions(launch="always", options={"size": size}, screen_px=screen_px, clock="realtime")
options = PublicOptions(
    open_session=open_session,
    known={profile.process.executable: load_profile(profile_path(Path("elden_ring")))},
    recordings=Path(recordings),
)
with open_session(profile, started) as game, PublicService(options) as service:
    # EldenGym fails if a value cannot be read, for example while a new fight is loaded.
    game.write({"player.no_death": True, "player.no_gravity": True})
    with serve(game, ServerOptions(needs_token=False, extra_handlers=service.handlers)) as server:
        print(server.address, flush=True)
        sys.stdin.read()
"""


def measure_peer(n_steps: int, n_resets: int, seed: int) -> Result:
    """Measure steps and resets of EldenGym and of ours.

    Args:
        n_steps: Steps of each.
        n_resets: Resets of EldenGym; ours are reset ten times as often.
        seed: Seed of the keys and actions.

    Raises:
        MissingDependencyError: EldenGym is not installed.
        SiphonError: The game or its server does not start.
    """
    rows = [*_theirs(n_steps, n_resets, seed), *_ours(n_steps, 10 * n_resets, seed)]
    for row in rows:
        slowest = next(other for other in rows if other["what"] == row["what"])
        row["faster by"] = None if row is slowest else slowest["median (ms)"] / row["median (ms)"]  # type: ignore[operator]
    title = f"EldenGym 0.6.0 and ours on one fight, as Elden Ring lays it out, {WINDOW_PX[0]}x{WINDOW_PX[1]}"
    return Result(title=f"{title}; a step is one frame of the game and an observation", rows=rows)


def mask_with_public_attributes(public: Profile) -> Profile:
    """Return our profile of Elden Ring with the attributes that another profile finds by pattern.

    The window then has a value for each attribute of that profile.
    """
    own = load_profile(profile_path(Path(MASK)))
    places = {(own.bases[fact.base].pattern, fact.offsets) for fact in own.attributes.values() if fact.base}
    bases = {f"public.{name}": base for name, base in public.bases.items()}
    attributes = {
        f"public.{name}": msgspec.structs.replace(fact, base=f"public.{fact.base}")
        for name, fact in public.attributes.items()
        if fact.base and (public.bases[fact.base].pattern, fact.offsets) not in places
    }
    return msgspec.structs.replace(own, bases={**own.bases, **bases}, attributes={**own.attributes, **attributes})


def _theirs(n_steps: int, n_resets: int, seed: int) -> list[Row]:
    try:
        module = import_module("eldengym.env")
    except ImportError as error:
        raise MissingDependencyError("eldengym", "peers") from error
    files = Path(module.__file__ or "").parent / "files" / "Margit-v0"
    config = files / "er_siphon_config.toml"
    rng = np.random.default_rng(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="soulslab-bench-")))
        mask = folder / "profile.toml"
        mask.write_text(dump_settings(mask_with_public_attributes(load_profile(config))), encoding="utf-8")
        size = "x".join(map(str, WINDOW_PX))
        address = stack.enter_context(running_server(_SERVER, f"{mask}|{size}|{folder}"))
        stack.enter_context(redirect_stdout(io.StringIO()))  # EldenGym prints progress messages
        env = module.EldenGymEnv(
            "Margit-v0", str(files / "keybinds_v2.json"), str(config), host=address, launch_game=False
        )
        stack.callback(env.close)
        reset_ms = [_ms(env.reset) for _ in with_progress(range(n_resets), "EldenGym's resets")]
        actions = rng.integers(2, size=(n_steps, env.action_space.n))
        step_ms = [_ms(partial(env.step, action)) for action in with_progress(actions, "EldenGym's steps")]
    return [_row("EldenGym 0.6.0", "step", step_ms), _row("EldenGym 0.6.0", "reset", reset_ms)]


def _ours(n_steps: int, n_resets: int, seed: int) -> list[Row]:
    rng = np.random.default_rng(seed)
    env = gymnasium.make(
        ARENA_LIVE_ID,
        disable_env_checker=True,
        mask=MASK,
        size_px=WINDOW_PX,
        observation="pixels+state",
        pixels={"width_px": WINDOW_PX[0], "height_px": WINDOW_PX[1], "is_grey": False},
        action_mode="multi_binary",
        step_ms=FRAME_MS,
        episodes="in_place",
    )
    with closing(env):
        env.reset(seed=seed)
        step_ms = []
        for _ in with_progress(range(n_steps), "our steps"):
            action = rng.integers(2, size=env.action_space.shape).astype(np.int8)
            start = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            step_ms.append(1e3 * (time.perf_counter() - start))
            if terminated or truncated:
                env.reset()
        reset_ms = []
        for _ in with_progress(range(n_resets), "our resets"):
            for _ in range(N_STEPS_BEFORE_RESET):
                if any(env.step(rng.integers(2, size=env.action_space.shape).astype(np.int8))[2:4]):
                    break
            reset_ms.append(_ms(env.reset))
    return [_row("ours, lockstep", "step", step_ms), _row("ours, lockstep", "reset", reset_ms)]


def _ms(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def _row(who: str, what: str, ms: list[float]) -> Row:
    p50, p95 = np.percentile(ms, (50, 95)).tolist()
    return {"environment": who, "what": what, "n": len(ms), "median (ms)": p50, "p95 (ms)": p95}
