"""The live feed of a run: the observations and computations of an actor, for viewers on this machine.

The actor listens at a loopback port; the port and a random key are in ``live.json`` in the folder of the run, which
only its user can read. A viewer sends the key, receives a `FeedInfo`, and asks for each further message. So nothing is
computed without a viewer, and a slow viewer receives fewer messages instead of delaying the actor.

A simulator takes thousands of decisions per second, and every hundredth of them would be no fight that a person can
follow. The feed therefore sends the first `MAX_WAITING` decisions of a fight, and after the fight pauses until they
were watched at ten decisions per second. A game in real time is sent without gaps and pauses.

::

    viewer: key (32 bytes)
    actor:  length (4 bytes, big endian), FeedInfo as msgpack
    viewer: one byte
    actor:  length, Moment or Ending as msgpack
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import secrets
import socket
import struct
import threading
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import gymnasium
import msgspec
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from soulslab.config.atomic_file import replace_file
from soulslab.learn.environment import Info, first_lateness, first_result
from soulslab.learn.inputs import Inputs
from soulslab.learn.policy_header import Player
from soulslab.learn.telemetry import Message

if TYPE_CHECKING:
    from soulslab.learn.policy_view import PolicyView

FEED_NAME: Final = "live.json"
GAME_FEEDS: Final = "fleet/live"
"""Folder in the folder of a run with the feeds of the games of its fleet that play on the same machine."""

WATCHED_DECISION_S: Final = 0.1
"""Time for which a viewer sees a decision of a simulated fight (s)."""

SIMULATED_DECISION_S: Final = 0.025
"""Decisions that follow each other in less time than this are those of a simulator (s)."""

MAX_WAITING: Final = 600
"""Largest number of messages that wait for a viewer; the oldest ones are dropped."""

MAX_VIEWERS: Final = 4
MAX_CONNECTIONS: Final = 8
"""Largest number of connections, with those that have not sent the key yet."""

MAX_MESSAGE_BYTES: Final = 8 << 20
KEY_BYTES: Final = 32
LENGTH: Final = struct.Struct(">I")

_HANDSHAKE_S: Final = 5.0
_CHECK_EVERY_S: Final = 1.0
"""Time after which a viewer that waits for a message is checked (s)."""

_MAX_PICTURE_PX: Final = 480

_log = logging.getLogger(__name__)

Env = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]


class FeedAddress(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Content of ``live.json``: the port at 127.0.0.1, the key in hexadecimal, and the process."""

    port: int
    key: str
    pid: int


class FeedInfo(msgspec.Struct, frozen=True, tag="info", kw_only=True):
    """The environment of a feed, which does not change during the fights.

    Attributes:
        env_id: Gymnasium id.
        feature_names: Names of the features; empty if they are unknown.
        n_actions: Number of actions.
        action_names: Names of the actions; empty if they are unknown.
        scene: Result of the environment's ``scene_info()``, if it has this method.
        feed_id: Random text by which a viewer that connects again knows that this is the same feed; "" for recorded
            fights.
    """

    env_id: str
    feature_names: tuple[str, ...]
    n_actions: int
    action_names: tuple[str, ...]
    scene: dict[str, bytes]
    feed_id: str = ""


class Moment(msgspec.Struct, frozen=True, tag="moment", kw_only=True):
    """A decision.

    Attributes:
        fight: Number of the fight since the feed was opened.
        decision: Number of the decision in the fight, from 0.
        wall_s: Wall time (Unix time, s).
        action: The chosen action.
        reward: Reward of the decision before; 0 for the first one.
        total: Sum of the rewards of the fight so far.
        kind: ``probability`` or ``value``; "" if no policy chose.
        mask: One byte per action, 1 if it is allowed.
        features: Features and extra inputs, float32.
        scores: Score of each action, float32.
        quantiles: Quantiles of each action's return, float32, (A, Q) in row order; empty for probabilities.
        value: Expected return; None if no policy chose.
        hidden: Activations of each hidden layer as one byte per unit, in units of the layer's largest one / 255.
        attribution: Gradient times input, float32 per feature.
        scene: Result of the environment's ``scene(i)``, if it has this method.
        picture: Rendered picture of the environment, as a JPEG; empty if it renders nothing.
        late_s: How late the step before was in a real-time game (s).
    """

    fight: int
    decision: int
    wall_s: float
    action: int
    reward: float
    kind: str
    mask: bytes
    features: bytes
    scores: bytes
    quantiles: bytes
    value: float | None
    hidden: tuple[bytes, ...]
    attribution: bytes
    scene: dict[str, bytes]
    total: float = 0.0
    picture: bytes = b""
    late_s: float = 0.0


class Ending(msgspec.Struct, frozen=True, tag="ending", kw_only=True):
    """The end of a fight; ``is_won`` is None if the result is unknown."""

    fight: int
    is_won: bool | None


FeedMessage = FeedInfo | Moment | Ending


class LiveFeed:
    """Sends the decisions of one environment to viewers; a telemetry sink that the training loop opens.

    It does nothing before `open`, and while no viewer is connected.

    Attributes:
        is_watched: Whether a viewer is connected.
    """

    def __init__(self, path: Path) -> None:
        """Set the path of the file with port and key, usually `FEED_NAME` in the folder of a run."""
        self.is_watched = False
        self._path = path
        self._key = secrets.token_hex(KEY_BYTES // 2)
        self._server: socket.socket | None = None
        self._lock = threading.Condition()
        self._free = threading.Semaphore(MAX_CONNECTIONS)
        self._viewers: dict[socket.socket, deque[bytes]] = {}
        self._info = b""
        self._fight = self._decision = self._n_sent = 0
        self._reward = self._total = self._late_s = 0.0
        self._began_s = self._resumes_s = 0.0

    def open(self, env: Env) -> None:
        """Listen for viewers, and write the file; a feed that cannot listen only gives a warning."""
        info = msgspec.structs.replace(describe_env(env), feed_id=secrets.token_hex(8))
        self._info = msgspec.msgpack.encode(info)
        try:
            self._server = socket.create_server(("127.0.0.1", 0))
            address = FeedAddress(port=self._server.getsockname()[1], key=self._key, pid=os.getpid())
            replace_file(self._path, msgspec.json.encode(address), mode=0o600)
        except OSError as error:
            _log.warning("no live feed for the dashboard: %s", error)
            self.close()
            return
        threading.Thread(target=self._accept, args=(self._server,), name="soulslab-live-feed", daemon=True).start()

    def write(self, message: Message) -> None:  # noqa: ARG002  (as a sink of telemetry)
        """Do nothing: viewers read the telemetry from the folder of the run."""
        return

    def show(self, env: Env, player: Player, inputs: Inputs, mask: NDArray[np.bool_], actions: NDArray[Any]) -> None:
        """Offer the present decision of the first environment to the viewers.

        Args:
            env: The environments, before they are stepped.
            player: The policy that chose.
            inputs: Inputs of all environments (N, ...).
            mask: True for allowed actions, bool (N, A).
            actions: The chosen action of each environment, (N,).
        """
        now_s = time.monotonic()
        if not self.is_watched or now_s < self._resumes_s:
            return
        if self._n_sent == 0:
            self._began_s = now_s
        if self._n_sent >= MAX_WAITING and self._is_faster_than_a_game(now_s):
            return  # viewers skip to the end of a long simulated fight
        self._n_sent += 1
        first = inputs.select(slice(1))
        action = int(actions[0])
        moment = make_moment(env, first, mask[0], action, player.view(first, mask[0], action))
        moment = msgspec.structs.replace(
            moment,
            fight=self._fight,
            decision=self._decision,
            reward=self._reward,
            total=self._total,
            late_s=self._late_s,
        )
        self._send(moment)

    def follow(self, reward: float, *, is_over: bool, is_won: bool | None = None, late_s: float = 0.0) -> None:
        """Count the step of the first environment; call it after each step, also while no viewer is connected."""
        self._reward, self._late_s = reward, late_s
        self._total += reward
        self._decision += 1
        if not is_over:
            return
        if self._n_sent:
            self._send(Ending(fight=self._fight, is_won=is_won))
            if self._is_faster_than_a_game(time.monotonic()):
                self._resumes_s = self._began_s + self._n_sent * WATCHED_DECISION_S
        self._fight += 1
        self._decision = self._n_sent = 0
        self._reward = self._total = 0.0

    def follow_first(self, rewards: NDArray[Any], dones: NDArray[np.bool_], info: Info) -> None:
        """Count a step of N environments, of which the first one is shown; see :meth:`follow`."""
        self.follow(float(rewards[0]), is_over=bool(dones[0]), is_won=first_result(info), late_s=first_lateness(info))

    def close(self) -> None:
        """Disconnect the viewers and remove the file; a second call does nothing."""
        server, self._server = self._server, None
        if server is not None:
            _disconnect(server)
            self._path.unlink(missing_ok=True)
        with self._lock:
            for viewer in self._viewers:
                _disconnect(viewer)
            self._viewers.clear()
            self.is_watched = False
            self._lock.notify_all()

    def _is_faster_than_a_game(self, now_s: float) -> bool:
        """Return whether the decisions of this fight came much faster than those of a game in real time."""
        return now_s - self._began_s < self._n_sent * SIMULATED_DECISION_S

    def _send(self, message: Moment | Ending) -> None:
        encoded = msgspec.msgpack.encode(message)
        with self._lock:
            for waiting in self._viewers.values():
                waiting.append(encoded)
            self._lock.notify_all()

    def _accept(self, server: socket.socket) -> None:
        while True:
            try:
                viewer, _ = server.accept()
            except OSError:  # the feed was closed
                return
            if self._free.acquire(blocking=False):
                threading.Thread(target=self._serve, args=(viewer,), name="soulslab-live-viewer", daemon=True).start()
            else:
                viewer.close()

    def _serve(self, viewer: socket.socket) -> None:
        """Send messages to a viewer as it asks for them, until it disconnects."""
        waiting: deque[bytes] = deque(maxlen=MAX_WAITING)
        try:
            viewer.settimeout(_HANDSHAKE_S)
            if not hmac.compare_digest(receive_exactly(viewer, KEY_BYTES), self._key.encode()):
                return
            viewer.sendall(LENGTH.pack(len(self._info)) + self._info)
            viewer.settimeout(None)
            with self._lock:
                if len(self._viewers) >= MAX_VIEWERS or self._server is None:
                    return
                self._viewers[viewer] = waiting
                self.is_watched = True
            while viewer.recv(1):
                message = self._next_message(viewer, waiting)
                if message is None:
                    return
                viewer.sendall(LENGTH.pack(len(message)) + message)
        except OSError:
            _log.debug("a viewer of the live feed has disconnected", exc_info=True)
        finally:
            viewer.close()
            with self._lock:
                self._viewers.pop(viewer, None)
                self.is_watched = bool(self._viewers)
            self._free.release()

    def _next_message(self, viewer: socket.socket, waiting: deque[bytes]) -> bytes | None:
        """Wait for the next message of a viewer; return None if it has disconnected, or if the feed was closed."""
        while True:
            with self._lock:
                self._lock.wait_for(lambda: waiting or viewer not in self._viewers, _CHECK_EVERY_S)
                if viewer not in self._viewers:
                    return None
                if waiting:
                    return waiting.popleft()
            # A feed may be silent for long, and a viewer that has gone would keep its place.
            if _has_gone(viewer):
                return None


def game_feed(folder: Path, game: str) -> Path:
    """Return the path of the feed of a game of a fleet, by its name, in a folder of feeds."""
    return folder / game.replace("/", "_") / FEED_NAME


def make_moment(env: Env, inputs: Inputs, mask: NDArray[np.bool_], action: int, view: PolicyView | None) -> Moment:
    """Return a decision in the first of some environments, before they are stepped; see `describe_moment`."""
    moment = describe_moment(inputs, mask, action, view)
    return msgspec.structs.replace(moment, scene=_scene(env), picture=_picture(env))


def describe_moment(inputs: Inputs, mask: NDArray[np.bool_], action: int, view: PolicyView | None) -> Moment:
    """Return a decision for viewers, as the first one of fight 0, without a picture.

    Args:
        inputs: Inputs of the first environment (B = 1).
        mask: True for allowed actions, bool (A,).
        action: The chosen action.
        view: What the policy computed; None if no policy chose.
    """
    return Moment(
        fight=0,
        decision=0,
        wall_s=time.time(),
        action=action,
        reward=0.0,
        kind=view.kind if view else "",
        mask=mask.astype(np.uint8).tobytes(),
        features=inputs.features[0].tobytes(),
        scores=view.scores.tobytes() if view else b"",
        quantiles=view.quantiles.tobytes() if view else b"",
        value=view.value if view else None,
        hidden=tuple(_as_bytes(layer) for layer in view.hidden) if view else (),
        attribution=view.attribution.tobytes() if view else b"",
        scene={},
    )


def describe_env(env: Env) -> FeedInfo:
    """Return what viewers need to know about an environment."""
    base = _first(env)
    space = env.single_action_space if isinstance(env, VectorEnv) else env.action_space
    spec = env.spec
    info = getattr(base, "scene_info", None)
    return FeedInfo(
        env_id=spec.id if spec is not None else type(base).__name__,
        feature_names=tuple(getattr(base, "feature_names", ())),
        n_actions=int(getattr(space, "n", 0)),
        action_names=tuple(getattr(base, "action_names", ())),
        scene=info() if info is not None else {},
    )


def receive_exactly(connection: socket.socket, n_bytes: int) -> bytes:
    """Return exactly this number of bytes; raises ConnectionError if the connection ends before."""
    parts = []
    while n_bytes:
        part = connection.recv(n_bytes)
        if not part:
            raise ConnectionError("the connection has ended")
        parts.append(part)
        n_bytes -= len(part)
    return b"".join(parts)


def _disconnect(connection: socket.socket) -> None:
    """Close a connection, and wake the thread that waits for it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def _has_gone(connection: socket.socket) -> bool:
    """Return whether the other side has closed a blocking connection, without reading from it."""
    connection.setblocking(False)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except BlockingIOError:  # it has sent nothing
        return False
    finally:
        connection.setblocking(True)


def _first(env: Env) -> Any:
    """Return the unwrapped first environment, or a vector environment that steps all of them at once."""
    base = env.unwrapped
    return base.envs[0].unwrapped if isinstance(base, SyncVectorEnv) else base


def _scene(env: Env) -> dict[str, bytes]:
    scene = getattr(_first(env), "scene", None)
    result: dict[str, bytes] = scene(0) if scene is not None else {}
    return result


def _picture(env: Env) -> bytes:
    """Return the picture of the first environment as a JPEG of limited size; empty if it has none.

    It is that of ``scene_picture()``, or of ``render()`` with ``render_mode="rgb_array"``. A picture that the dashboard
    can draw itself (``scene_info()``) is left out.
    """
    base = _first(env)
    picture = None
    if hasattr(base, "scene_picture"):
        picture = base.scene_picture()
    elif getattr(base, "render_mode", None) == "rgb_array" and not hasattr(base, "scene_info"):
        rendered = base.render()
        picture = np.asarray(rendered[0] if isinstance(base, VectorEnv) else rendered)
        if picture.shape[2] == 4:  # an alpha channel
            picture = picture[..., :3]
    return encode_picture(picture) if picture is not None else b""


def encode_picture(picture: NDArray[np.uint8]) -> bytes:
    """Return a picture, uint8 (H, W, C), as a JPEG of limited size.

    Of stacked frames the last one is shown. Four channels whose last one is opaque are colours with an alpha channel.
    """
    if picture.shape[2] == 4 and (picture[..., 3] == 255).all():
        picture = picture[..., :3]
    n_channels = 3 if picture.shape[2] % 3 == 0 else 1
    picture = np.ascontiguousarray(picture[..., -n_channels:])
    import cv2  # noqa: PLC0415  (takes 0.1 s, and few runs need it)

    scale = min(1.0, _MAX_PICTURE_PX / picture.shape[1])
    scaled: Any = picture[..., ::-1]
    if scale < 1.0:
        scaled = cv2.resize(scaled, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    is_encoded, data = cv2.imencode(".jpg", scaled)
    return data.tobytes() if is_encoded else b""


def _as_bytes(layer: NDArray[np.float32]) -> bytes:
    """Return activations in units of the largest one / 255; negative ones are shown by their size."""
    size = np.abs(layer)
    return (size * (255.0 / max(float(size.max()), 1e-9))).astype(np.uint8).tobytes()
