"""Overhead of a remote session: the same calls of the toy game on a server and in this process.

The server is a separate process on this machine, connected by TCP and by a Unix socket. The measurements are
interleaved, so that a busy machine affects all of them. The result is the difference to a local session.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Literal, TypeAlias

import msgspec

from benchmarks.result import Result, Row
from benchmarks.siphon_server import running_server
from benchmarks.timing import interleaved, ms_per_call
from soulslab.errors import SiphonError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.client import ClientOptions, connect
from soulslab.siphon.rpc.connection import make_endpoint
from soulslab.siphon.rpc.wire_encoding import encode, make_decoder
from soulslab.siphon.session import Session, Step
from soulslab.testing.fake_session import TICK_HZ, FakeSession

#: Maximum difference between a step on a server and a local step.
TARGET_MS = 0.6
SMALL = FrameFormat(84, 84, is_grey=True)
LARGE = FrameFormat(640, 400)
TCP, UNIX = "TCP", "Unix socket"
UNARY, SNAPSHOT, STEP, STEP_SMALL, STEP_LARGE = (
    "snapshot, a separate call",
    "snapshot",
    "step",
    "step with 84x84 grey",
    "step with 640x400 RGB",
)
Frames: TypeAlias = Literal["auto", "raw", "jpeg"]
FRAMES: dict[Frames, str] = {"auto": "shared memory", "raw": "in the message", "jpeg": "JPEG"}
# The process ends when its standard input is closed.
_SERVER = """
import sys
from soulslab.testing.fake_session import FakeSession
from soulslab.siphon.rpc.server import ServerOptions, serve
with FakeSession() as toy, serve(toy, ServerOptions(address=sys.argv[1], needs_token=False)) as server:
    print(server.address, flush=True)
    sys.stdin.read()
"""

_Key = tuple[str, str, str]


class RpcBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_calls: Calls per measurement.
        n_rounds: Number of measurements; the table contains their median.
    """

    n_calls: int = 100
    n_rounds: int = 15

    @classmethod
    def quick(cls) -> RpcBenchSettings:
        """Return settings for rough numbers."""
        return cls(n_calls=20, n_rounds=5)


def measure_rpc(settings: RpcBenchSettings) -> list[Result]:
    """Measure round trips to a server, and the same calls of a local session.

    Raises:
        SiphonError: The server did not start, or used another transport for frames.
    """
    with ExitStack() as stack:
        local = stack.enter_context(FakeSession())
        actions: dict[_Key, Callable[[], object]] = {("here", way, ""): act for way, act in _actions(local).items()}
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="soulslab-bench-"))
        for transport in (TCP, UNIX):
            for frames in FRAMES:
                # One server per client, as only one client at a time controls a game.
                wanted = "127.0.0.1:0" if transport == TCP else f"unix:{folder}/{frames}"
                actions |= _remote_actions(
                    transport, stack.enter_context(running_server(_SERVER, wanted)), frames, stack
                )
        timed = {key: partial(ms_per_call, action, settings.n_calls) for key, action in actions.items()}
        measured = {key: median(found) for key, found in interleaved(timed, settings.n_rounds).items()}
    title = f"A session on a server and one in this process, toy game, ms per call, median of {settings.n_rounds}"
    return [Result(title=title, rows=[_row(key, measured) for key in measured if key[0] != "here"])]


def _row(key: _Key, measured: dict[_Key, float]) -> Row:
    transport, way, frames = key
    here = measured["here", SNAPSHOT if way == UNARY else way, ""]
    over = measured[key] - here
    target = TARGET_MS if way in (STEP, STEP_SMALL) else None
    return {
        "over": transport,
        "call": way,
        "frames": frames,
        "ms": measured[key],
        "in this process (ms)": here,
        "difference (ms)": over,
        "target (ms)": target,
        "reached": over <= target if target is not None else None,
    }


def _remote_actions(transport: str, address: str, frames: Frames, stack: ExitStack) -> dict[_Key, Callable[[], object]]:
    """Return the actions to measure for one transport and one way of sending frames."""
    session = stack.enter_context(connect(address, options=ClientOptions(frames=frames)))
    if session.shares_memory != (frames == "auto"):
        raise SiphonError(f"frames were not sent by {FRAMES[frames]}")
    with_frames, name = (STEP_SMALL, STEP_LARGE), FRAMES[frames]
    found = {(transport, way, name if way in with_frames else ""): act for way, act in _actions(session).items()}
    if frames == "auto":
        return {(transport, UNARY, ""): _unary_snapshot(address, stack), **found}
    return {key: action for key, action in found.items() if key[1] in with_frames}


def _actions(session: Session) -> dict[str, Callable[[], object]]:
    """Return the actions to measure for a session."""
    step = Step(held=("W",), advance_s=1.0 / TICK_HZ)
    return {
        SNAPSHOT: session.snapshot,
        STEP: partial(session.step, step),
        STEP_SMALL: partial(session.step, msgspec.structs.replace(step, frame=SMALL)),
        STEP_LARGE: partial(session.step, msgspec.structs.replace(step, frame=LARGE)),
    }


def _unary_snapshot(address: str, stack: ExitStack) -> Callable[[], object]:
    """Return an action that reads a snapshot with a unary gRPC call, as a client that does not attach."""
    channel = stack.enter_context(make_endpoint(address, "", None).open_channel())
    call = channel.unary_unary(f"/{m.SERVICE}/{m.Snap.__name__}")
    decoder = make_decoder(m.Values)
    request = encode(m.Snap(None))
    return lambda: decoder.decode(call(request, timeout=10.0))
