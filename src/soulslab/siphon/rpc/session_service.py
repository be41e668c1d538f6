"""The methods of our gRPC service: the stream of an attached client, unary calls, and streams of observations."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

import grpc

from soulslab.errors import AccessRefusedError, RemoteError, SoulslabError, WireError
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.client_registry import Client
from soulslab.siphon.rpc.dispatch import (
    as_attribute,
    changes_game,
    check_frame_format,
    pack_values,
    perform,
    sends_input,
)
from soulslab.siphon.rpc.error_mapping import abort, to_failure
from soulslab.siphon.rpc.frame_transfer import FrameSender
from soulslab.siphon.rpc.served_game import ServedGame
from soulslab.siphon.rpc.wire_encoding import UNSENDABLE, encode, make_decoder
from soulslab.siphon.session import Step

#: Longest wait for other calls, for a unary call without a deadline.
WAIT_S = 10.0

_log = logging.getLogger(__name__)
_any_hellos = make_decoder(m.AnyHello)
_hellos = make_decoder(m.Hello)
_calls = make_decoder(m.Call)
_watches = make_decoder(m.Watch)


class SessionService:
    """Serves one game to its clients.

    Args:
        game: Game to serve.
        allow_raw_writes: See `ServerOptions`.
    """

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

    # --- the stream of a client -----------------------------------------------------------------------------

    def _attach(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serve one client until it leaves or disconnects; then release its keys and memory."""
        client = None
        try:
            try:
                client = self._game.clients.join(_read_hello(next(requests)))
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
                return encode(m.Answer(number, m.Done())), False
            return _encode_answer(m.Answer(number, self._do(client, call.request, call.wait_s, client.frames))), True
        except SoulslabError as error:
            return encode(m.Answer(number, to_failure(error))), True
        except Exception as error:  # noqa: BLE001  (a bug of ours must not cost the client its keys; it is told)
            return encode(m.Answer(number, to_failure(_as_bug(error)))), True

    # --- single calls ---------------------------------------------------------------------------------------

    def _unary(self, kind: type[m.Request]) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        """Return the handler of the unary calls of one kind of request."""
        decoder = make_decoder(kind)

        def serve(data: bytes, context: grpc.ServicerContext) -> bytes:
            frames = FrameSender("raw", 90)
            try:
                client_id = dict(context.invocation_metadata()).get(m.CLIENT_KEY)
                client = self._game.clients.find(client_id) if client_id is not None else None
                wait_s = min(WAIT_S, context.time_remaining() or WAIT_S)
                return _encode_answer(self._do(client, m.decode(decoder, data), wait_s, frames))
            except SoulslabError as error:
                abort(context, error)
            except Exception as error:  # noqa: BLE001  (the same)
                abort(context, _as_bug(error))

        return serve

    def _do(self, client: Client | None, request: m.Request, wait_s: float, frames: FrameSender) -> m.AnyAnswer:
        """Execute a request with exclusive use of the game."""
        if not changes_game(request):
            with self._game.use(wait_s) as session:
                return perform(request, session, frames)
        if client is None:
            raise AccessRefusedError(
                f"only an attached client may change the game: open the stream Attach, then send the id that it gives "
                f"as {m.CLIENT_KEY}"
            )
        with self._game.control(client, wait_s) as session:
            if isinstance(request, m.WriteNumber) and not self._allows_raw_writes:
                request = as_attribute(request, session.profile)
            client.has_input = client.has_input or sends_input(request)
            return perform(request, session, frames)

    # --- looking on -----------------------------------------------------------------------------------------

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
                frame = frames.pack(result.frame) if result.frame is not None else None
                yield _encode_answer(m.Look(pack_values(result.snapshot), frame))
                # A client that is too slow for the rate gets fewer observations, not late ones.
                due_s = max(due_s + 1.0 / watch.rate_hz, time.monotonic())
        except SoulslabError as error:
            abort(context, error)
        except Exception as error:  # noqa: BLE001  (the same)
            abort(context, _as_bug(error))


def _read_hello(data: bytes) -> m.Hello:
    """Return the first message of a client."""
    m.check_version(m.decode(_any_hellos, data).version, "client")
    return m.decode(_hellos, data)


def _encode_answer(answer: m.Message) -> bytes:
    """Encode an answer.

    Raises:
        RemoteError: The answer contains a value that cannot be encoded.
        WireError: The answer is too large.
    """
    try:
        data = encode(answer)
    except UNSENDABLE as error:
        raise RemoteError(f"the answer cannot be sent: {error}") from error
    if len(data) > m.MAX_ANSWER_BYTES:
        raise WireError(f"the answer has {len(data)} bytes, and {m.MAX_ANSWER_BYTES} can be sent; ask for less at once")
    return data


def _as_bug(error: Exception) -> RemoteError:
    """Log an unexpected error; return the error for the client."""
    _log.error("a request failed in a way that it should not", exc_info=error)
    return RemoteError(f"the server failed: {type(error).__name__}: {error}; its log says where")
