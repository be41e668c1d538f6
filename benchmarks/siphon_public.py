"""Time of one observation of Doom with a client of the public Siphon protocol and with our client.

One server, a separate process on this machine, serves both protocols over TCP.
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from benchmarks.result import Result, Row
from benchmarks.siphon_server import running_server
from benchmarks.timing import interleaved, ms_per_call
from soulslab.errors import MissingDependencyError, SiphonError
from soulslab.siphon.rpc.client import connect
from soulslab.siphon.session import Session

#: Attributes of Doom's profile, with their offsets from the object that the public profile's pattern finds.
ATTRIBUTES = {
    "body_health": 164,
    "x": 24,
    "y": 28,
    "z": 32,
    "angle": 56,
    "speed_x": 112,
    "speed_y": 116,
}
KEY = "RIGHT_CTRL"
PUBLIC_READS, OUR_READS = "the values, one call each", "the values, one snapshot"
_PATTERN = "48 8D 05 ?? ?? ?? ?? 48 8D 3C D0 E8"
# The process ends when its standard input is closed.
_SERVER = """
import sys
from pathlib import Path
from soulslab.games import profile_path
from soulslab.siphon.local import open_session
from soulslab.siphon.profile import load_profile
from soulslab.siphon.rpc.public.service import PublicOptions, PublicService
from soulslab.siphon.rpc.server import ServerOptions, serve
public = PublicOptions(open_session=open_session, recordings=Path(sys.argv[1]))
with open_session(load_profile(profile_path(Path("doom")))) as game, PublicService(public) as service:
    with serve(game, ServerOptions(needs_token=False, extra_handlers=service.handlers)) as server:
        print(server.address, flush=True)
        sys.stdin.read()
"""


class PublicBenchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the benchmark.

    Attributes:
        n_calls: Calls per measurement.
        n_rounds: Number of measurements; the table contains their median.
    """

    n_calls: int = 50
    n_rounds: int = 9

    @classmethod
    def quick(cls) -> PublicBenchSettings:
        """Return settings for rough numbers."""
        return cls(n_calls=10, n_rounds=3)


def measure_public(settings: PublicBenchSettings) -> Result:
    """Measure both protocols on one Doom.

    Raises:
        MissingDependencyError: pysiphon is not installed.
        SiphonError: The server did not start, or the public client got no answer.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soulslab-bench-")))
        address = stack.enter_context(running_server(_SERVER, str(folder)))
        theirs = _public_client(address, folder, stack)
        ours = stack.enter_context(connect(address))
        actions: dict[tuple[str, str], Callable[[], object]] = {
            ("pysiphon", PUBLIC_READS): lambda: [theirs.get_attribute(name)["value"] for name in ATTRIBUTES],
            ("ours", OUR_READS): partial(ours.snapshot, tuple(ATTRIBUTES)),
            ("pysiphon", "a key down and up"): partial(_tap_theirs, theirs),
            ("ours", "a key down and up"): partial(_tap_ours, ours),
            ("pysiphon", "a picture, 320x240"): partial(theirs.capture_frame, as_image=False),
            ("ours", "a picture, 320x240"): ours.capture,
        }
        timed = {key: partial(ms_per_call, action, settings.n_calls) for key, action in actions.items()}
        measured = {key: median(found) for key, found in interleaved(timed, settings.n_rounds).items()}
    title = f"The public protocol and ours on one Doom: {len(ATTRIBUTES)} values, keys, pictures"
    return Result(title=title, rows=[_row(key, measured) for key in measured])


def _tap_theirs(client: Any) -> None:
    for is_down in (True, False):
        client.input_key_toggle(KEY, is_down)


def _tap_ours(session: Session) -> None:
    for keys in ((KEY,), ()):
        session.input.set_held(keys)


def _row(key: tuple[str, str], measured: dict[tuple[str, str], float]) -> Row:
    client, what = key
    theirs = measured["pysiphon", PUBLIC_READS if what == OUR_READS else what]
    return {
        "client": client,
        "what": what,
        "ms": measured[key],
        "faster than pysiphon by": None if client == "pysiphon" else theirs / measured[key],
    }


def _public_client(address: str, folder: Path, stack: ExitStack) -> Any:
    """Return a pysiphon client that is attached to the game."""
    try:
        client = stack.enter_context(import_module("pysiphon").SiphonClient(address))
    except ImportError as error:
        raise MissingDependencyError("pysiphon", "dev") from error
    text = '[process_info]\nname = "chocolate-doom"\nwindow_name = ""\n' + "".join(
        f'[attributes.{name}]\npattern = "{_PATTERN}"\noffsets = [{offset}]\ntype = "int"\n'
        for name, offset in ATTRIBUTES.items()
    )
    file = folder / "doom.toml"
    file.write_text(text, encoding="utf-8")
    with redirect_stdout(io.StringIO()):  # pysiphon prints progress messages
        is_attached = client.init_all(str(file), wait_time=0.0) and client.get_attribute("x")["success"]
    if not is_attached:
        raise SiphonError("the public client could not attach to Doom; run the tests of the public protocol")
    return client
