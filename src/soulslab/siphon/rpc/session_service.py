"""The methods of our gRPC service: the stream of an attached client, unary calls, and streams of observations."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import grpc

from soulslab.errors import AccessRefusedError, ReadOnlyError, RemoteError, SoulslabError, WireError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.profile import Profile
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.error_mapping import abort, to_failure
from soulslab.siphon.rpc.frame_transfer import FrameSender
from soulslab.siphon.rpc.served_game import Client, ServedGame
from soulslab.siphon.rpc.wire_encoding import UNSENDABLE, encode, make_decoder
from soulslab.siphon.session import Session, Snapshot, Step, StepResult

MAX_SIDE_PX = 1 << 14
#: Maximum size of an uncompressed frame in an answer; the rest of the answer needs some room.
MAX_FRAME_BYTES = m.MAX_ANSWER_BYTES - (1 << 20)
#: Maximum game time of one request, because a game in the middle of an advance cannot be stopped.
MAX_ADVANCE_S = 3600.0


def changes_game(request: m.Request[Any]) -> bool:
    """Return whether a request needs control of the game."""
    if isinstance(request, m.DoStep):
        return request.step.changes_game
    return not isinstance(request, m.Query)


def sends_input(request: m.Request[Any]) -> bool:
    """Return whether keys or the gamepad may be held after a request."""
    if isinstance(request, m.DoStep):
        return request.step.sends_input
    return isinstance(request, m.Hold | m.Type | m.SetPad)


def as_attribute(request: m.WriteNumber, profile: Profile) -> m.Write:
    """Return the write of a number as one of the attribute at its place. Raises `ReadOnlyError` if there is none."""
    where = request.where
    place = (where.base, where.offsets, where.type, where.bit)
    for name, known in profile.attributes.items():
        is_same = (known.base, known.offsets, known.type, known.bit) == place
        if is_same and known.is_writable and known.length == 1 and known.scale == 1.0:
            return m.Write({name: request.value})
    raise ReadOnlyError(
        f"cannot write a number behind {request.where.base!r}: the profile has no writable attribute there. A server "
        f"that permits writes at any address is started with --allow-raw-writes (docs: Remote sessions)"
    )


def pack_values(snapshot: Snapshot) -> m.Values:
    """Return a snapshot as a message."""
    return m.Values(dict(snapshot), snapshot.game_time_s, snapshot.wall_time_s)


def check_frame_format(frame_format: FrameFormat) -> None:
    """Raise `WireError` for an impossible or unreasonable frame format."""
    width, height = frame_format.width_px, frame_format.height_px
    if not (0 <= width <= MAX_SIDE_PX and 0 <= height <= MAX_SIDE_PX) or (width == 0) != (height == 0):
        raise WireError(f"a frame cannot be {width}x{height}: give 0x0, or two sides from 1 to {MAX_SIDE_PX}")
    n_bytes = width * height * (1 if frame_format.is_grey else 3)
    if n_bytes > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {width}x{height} has {n_bytes} bytes, and {MAX_FRAME_BYTES} can be sent")


def _do_step(step: Step, session: Session, frames: FrameSender) -> m.Stepped:
    _check_step(step)
    return _pack_step(session.step(step), frames)


def _pack_step(result: StepResult, frames: FrameSender) -> m.Stepped:
    frame = frames.pack(result.frame) if result.frame is not None else None
    return m.Stepped(result.advance, pack_values(result.snapshot), frame)


def _check_step(step: Step) -> None:
    if step.frame is not None:
        check_frame_format(step.frame)
    if not 0.0 <= step.advance_s <= MAX_ADVANCE_S:
        raise WireError(f"advance_s is {step.advance_s}, and has to be from 0 to {MAX_ADVANCE_S:g}")
    if not 0.0 <= step.deadline_s <= MAX_ADVANCE_S:
        raise WireError(f"deadline_s is {step.deadline_s}, and has to be from 0 to {MAX_ADVANCE_S:g}")
    if step.speed is not None and not 0.001 <= step.speed <= 1000.0:
        raise WireError(f"speed is {step.speed}, and has to be from 0.001 to 1000")
    if max(map(abs, step.mouse_px)) > 2**15:
        raise WireError(f"the mouse cannot be moved by {step.mouse_px}")


def _grab(request: m.Grab, session: Session, frames: FrameSender) -> m.FrameData:
    check_frame_format(request.frame_format)
    return frames.pack(session.capture(request.frame_format))


#: Executes a request on a session, and returns its result. Raises `WireError` and the errors of the session.
_PERFORM: Final[dict[type[m.Request[Any]], Callable[[Any, Session, FrameSender], Any]]] = {
    m.Info: lambda _, session, __: session.info,
    m.Describe: lambda _, session, __: session.profile,
    m.Read: lambda request, session, _: session.read(request.name),
    m.Snap: lambda request, session, _: pack_values(session.snapshot(request.names)),
    m.Examine: lambda request, session, _: session.examine(request.names),
    m.ReadNumber: lambda request, session, _: session.read_number(request.where),
    m.Write: lambda request, session, _: session.write(request.values),
    m.WriteNumber: lambda request, session, _: session.write_number(request.where, request.value),
    m.Grab: _grab,
    m.DoStep: lambda request, session, frames: _do_step(request.step, session, frames),
    m.Held: lambda _, session, __: session.input.held,
    m.Hold: lambda request, session, _: session.input.set_held(request.keys, request.again),
    m.Type: lambda request, session, _: session.input.type(request.keys),
    m.MoveMouse: lambda request, session, _: session.input.move_mouse(request.dx_px, request.dy_px),
    m.SetPad: lambda request, session, _: session.input.set_pad(request.pad),
    m.Time: lambda _, session, __: m.TimeState(session.clock.game_time_s, session.clock.speed),
    m.Run: lambda request, session, _: session.clock.run(request.speed),
    m.Pause: lambda _, session, __: session.clock.pause(),
    m.DoAdvance: lambda request, session, _: session.clock.advance(
        request.seconds, deadline_s=request.deadline_s, speed=request.speed
    ),
    m.Restart: lambda request, session, _: session.restart(request.options, seed=request.seed),
}

#: Longest wait for other calls, for a unary call without a deadline.
WAIT_S = 10.0

_log = logging.getLogger(__name__)
_hellos = make_decoder(m.Hello)
_calls = make_decoder(m.Call)
_watches = make_decoder(m.Watch)


class SessionService:
    """Serves one game to its clients; `allow_raw_writes` as in `ServerOptions`."""

    def __init__(self, game: ServedGame, *, allow_raw_writes: bool) -> None:
        self._game = game
        self._allows_raw_writes = allow_raw_writes

    def handler(self) -> grpc.GenericRpcHandler:
        """Return the gRPC handler; messages stay bytes, so that decoding errors are reported by us."""
        methods = {
            "Attach": grpc.stream_stream_rpc_method_handler(self._attach),
            "Watch": grpc.unary_stream_rpc_method_handler(self._watch),
            **{name: grpc.unary_unary_rpc_method_handler(self._unary(kind)) for name, kind in m.REQUESTS.items()},
        }
        return grpc.method_handlers_generic_handler(m.SERVICE, methods)

    def _attach(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serve one client until it leaves or disconnects; then release its keys and memory."""
        client = None
        try:
            try:
                hello = next(requests)
                m.check_version(m.decode(m.ANY_VERSION, hello).version, "client")
                client = self._game.clients.join(m.decode(_hellos, hello))
                # Confirms the connection: opening the game may take longer than a client waits for a server.
                context.send_initial_metadata(())
                yield _encode_answer(self._welcome(client))
            except SoulslabError as error:
                abort(context, error)
            _log.info("%s is attached%s", client.name, " and shares memory" if client.frames.proof else "")
            for data in requests:
                answer, goes_on = self._answer(client, data)
                yield answer
                if not goes_on:
                    break
        finally:
            if client is not None:
                self._game.leave(client)
                _log.info("%s has left", client.name)

    def _welcome(self, client: Client) -> m.Welcome:
        """Return the first answer to a client; a game that has ended is accepted, because the client may restart it."""
        with self._game.use(WAIT_S) as session:
            try:
                info = session.info
            except SoulslabError as error:
                _log.info("%s attaches to a game that cannot be looked at: %s", client.name, error)
                info = None
            return m.Welcome(m.VERSION, client.id, session.profile, info, client.frames.proof)

    def _answer(self, client: Client, data: bytes) -> tuple[bytes, bool]:
        """Return the answer to one call of a stream, and whether the stream continues."""
        number = m.UNREADABLE
        try:
            call = m.decode(_calls, data)
            number = call.number
            if isinstance(call.request, m.Leave):
                self._game.leave(client)
                return encode(m.Answer(number, None)), False
            result = self._do(client, call.request, call.wait_s, client.frames)
            return _encode_answer(m.Answer(number, None, result)), True
        except Exception as error:  # noqa: BLE001  (a bug must not cost the client its keys)
            return encode(m.Answer(number, to_failure(_reported(error)))), True

    def _unary(self, kind: type[m.Request[Any]]) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        """Return the handler of the unary calls of one kind of request."""
        decoder = make_decoder(kind)

        def serve(data: bytes, context: grpc.ServicerContext) -> bytes:
            frames = FrameSender("raw", 90)
            try:
                client_id = dict(context.invocation_metadata()).get(m.CLIENT_KEY)
                client = self._game.clients.find(client_id) if client_id is not None else None
                wait_s = min(WAIT_S, context.time_remaining() or WAIT_S)
                return _encode_answer(self._do(client, m.decode(decoder, data), wait_s, frames))
            except Exception as error:  # noqa: BLE001  (the same)
                abort(context, _reported(error))

        return serve

    def _do(self, client: Client | None, request: m.Request[Any], wait_s: float, frames: FrameSender) -> Any:
        """Execute a request with exclusive use of the game, and return its result."""
        if not changes_game(request):
            with self._game.use(wait_s) as session:
                return _PERFORM[type(request)](request, session, frames)
        if client is None:
            raise AccessRefusedError(
                f"only an attached client may change the game: open the stream Attach, then send the id that it gives "
                f"as {m.CLIENT_KEY}"
            )
        with self._game.control(client, wait_s) as session:
            if isinstance(request, m.WriteNumber) and not self._allows_raw_writes:
                request = as_attribute(request, session.profile)
            client.has_input = client.has_input or sends_input(request)
            return _PERFORM[type(request)](request, session, frames)

    def _watch(self, data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Stream observations of the game at a rate until the client ends the stream."""
        is_over = threading.Event()
        if not context.add_callback(is_over.set):
            return
        try:
            watch = m.decode(_watches, data)
            if watch.frame is not None:
                check_frame_format(watch.frame)
            step = Step(attributes=watch.attributes, frame=watch.frame)
            frames = FrameSender(watch.frames, watch.jpeg_quality)
            due_s = time.monotonic()
            while not is_over.wait(max(due_s - time.monotonic(), 0.0)):
                with self._game.use(WAIT_S) as session:
                    result = session.step(step)
                yield _encode_answer(_pack_step(result, frames))
                # A client that is too slow for the rate gets fewer observations, not late ones.
                due_s = max(due_s + 1.0 / watch.rate_hz, time.monotonic())
        except Exception as error:  # noqa: BLE001  (the same)
            abort(context, _reported(error))


def _encode_answer(answer: object) -> bytes:
    """Encode an answer. Raises `RemoteError` or `WireError` if it cannot be sent."""
    try:
        data = encode(answer)
    except UNSENDABLE as error:
        raise RemoteError(f"the answer cannot be sent: {error}") from error
    if len(data) > m.MAX_ANSWER_BYTES:
        raise WireError(f"the answer has {len(data)} bytes, and {m.MAX_ANSWER_BYTES} can be sent; ask for less at once")
    return data


def _reported(error: Exception) -> SoulslabError:
    """Return the error for the client; one that is not soulslab's is a bug, and is logged."""
    if isinstance(error, SoulslabError):
        return error
    _log.error("a request failed in a way that it should not", exc_info=error)
    return RemoteError(f"the server failed: {type(error).__name__}: {error}; its log says where")
