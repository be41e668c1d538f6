"""The public Siphon service: every call of pysiphon and similar clients, executed on a session."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import cv2
import grpc
import msgspec
import numpy as np
import simplejpeg
from msgspec import Meta
from numpy.typing import NDArray

from soulslab.closing import Closing
from soulslab.errors import InputError, RecordingError, SiphonError, SoulslabError
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.input import Input
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.recording.recorder import RecordingOptions
from soulslab.siphon.rpc.access import LimitedCalls
from soulslab.siphon.rpc.public import siphon_service_pb2 as pb2
from soulslab.siphon.rpc.public.attachment import Attachment, SessionOpener
from soulslab.siphon.rpc.public.call_handlers import INT32, gone_event, handler_of, response_of, text_of, value_of
from soulslab.siphon.rpc.public.programs import Programs
from soulslab.siphon.rpc.public.public_clients import HeldKeys, PeerWatch
from soulslab.siphon.rpc.public.recordings import Recordings
from soulslab.siphon.session import Frame, Session, SessionOptions, Snapshot

SERVICE = "siphon_service.SiphonService"
#: X encodes distances as 16-bit numbers.
MAX_MOUSE_PX = 32767
MAX_MOUSE_STEPS = 1000
DEFAULT_QUALITY = 85
MAX_STREAMS = 8

_log = logging.getLogger(__name__)


class PublicOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of the public service.

    Attributes:
        open_session: Attaches to the game that a client configures (`soulslab.siphon.local.open_session`).
        session: Session options; process and window are chosen by the clients.
        known: Our profiles by the name of the executable, for attributes with ``method = "dll"``.
        programs: Paths of the programs that ExecuteCommand may run.
        recordings: Folder of the recordings.
        recordings_bytes: Maximum total size of the folder; recordings end before they exceed it.
        recording: Recording options; attributes and duration are chosen by the clients.
        stream_hz: Maximum number of frames per second of a frame stream.
        keys_after_s: Time for which a key stays pressed after the connection that pressed it has ended. Not 0, because
            ``pysiphon toggle W 1`` presses a key and disconnects.
        recordings_after_s: Time for which a recording continues after the connection that started it has ended.
    """

    open_session: SessionOpener
    session: SessionOptions = SessionOptions(deadline_s=10.0)
    known: dict[str, Profile] = {}
    programs: tuple[Path, ...] = ()
    recordings: Path = Path("recordings")
    recordings_bytes: Annotated[int, Meta(ge=0)] = 16 << 30
    recording: RecordingOptions = RecordingOptions()
    stream_hz: Annotated[float, Meta(gt=0)] = 60.0
    keys_after_s: Annotated[float, Meta(ge=0)] = 5.0
    recordings_after_s: Annotated[float, Meta(ge=0)] = 600.0


class PublicService(Closing):
    """The public service, with one configuration and one game for all of its clients."""

    def __init__(self, options: PublicOptions) -> None:
        self._options = options
        self._keys = HeldKeys(self._send_keys)
        self._game = Attachment(
            options.open_session,
            options.known,
            options.session,
            on_window=self._keys.send_again,
        )
        self._programs = Programs(options.programs)
        self._recordings = Recordings(options.recordings, options.recording, options.recordings_bytes)
        self._streams = LimitedCalls(MAX_STREAMS)
        self._peers = PeerWatch(lambda: self._keys.peers | self._recordings.peers, self._client_is_gone)

    def handlers(self, served: Session) -> Sequence[grpc.GenericRpcHandler]:
        """Return the handlers for a `grpc.Server` that offers a session, the only one that clients can attach to."""
        self._game.served = served
        handlers = {}
        for kind in pb2.DESCRIPTOR.services_by_name["SiphonService"].methods:
            # The call GetAttribute is executed by _get_attribute, and so on.
            answer = getattr(self, re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", kind.name))
            handlers[kind.name] = handler_of(kind, answer, self._peers.called)
        return (grpc.method_handlers_generic_handler(SERVICE, handlers),)

    def close(self) -> None:
        """Stop recordings and release keys and game, once the server has ended; a second call does nothing."""
        self._recordings.close()
        self._peers.close()
        self._game.close()

    def _get_attribute(self, request: pb2.GetSiphonRequest, _context: Any) -> pb2.GetSiphonResponse:
        name = request.attributeName

        def read(session: Session) -> Value:
            self._game.attribute(name)  # its error explains an attribute that needs an injected library
            return session.read(name)

        value = self._game.use("memory", read)
        return response_of(name, value, self._game.attribute(name))

    def _set_attribute(self, request: pb2.SetSiphonRequest, _context: Any) -> pb2.SetSiphonResponse:
        name = request.attributeName

        def write(session: Session) -> None:
            session.write({name: value_of(request, self._game.attribute(name))})

        self._game.use("memory", write)
        return pb2.SetSiphonResponse(success=True, message=f"{name} is written")

    def _input_key_tap(self, request: pb2.InputKeyTapRequest, context: Any) -> pb2.InputKeyTapResponse:
        self._game.use("input", lambda _: None)
        self._keys.tap(list(request.keys), request.hold_ms, request.delay_ms, gone_event(context))
        return pb2.InputKeyTapResponse(success=True, message=f"tapped {', '.join(request.keys)}")

    def _input_key_toggle(self, request: pb2.InputKeyToggleRequest, context: Any) -> pb2.InputKeyToggleResponse:
        self._game.use("input", lambda _: None)
        self._keys.toggle(request.key, is_down=request.toggle, peer=context.peer())
        if request.toggle:
            self._peers.wake()
        state = "down" if request.toggle else "up"
        return pb2.InputKeyToggleResponse(success=True, message=f"{request.key} is {state}")

    def _move_mouse(self, request: pb2.MoveMouseRequest, _context: Any) -> pb2.MoveMouseResponse:
        dx, dy, steps = request.delta_x, request.delta_y, max(request.steps, 1)
        if max(abs(dx), abs(dy)) > MAX_MOUSE_PX or steps > MAX_MOUSE_STEPS:
            raise InputError(
                f"a move of ({dx}, {dy}) px in {steps} steps is too much; "
                f"{MAX_MOUSE_PX} px and {MAX_MOUSE_STEPS} steps are the most"
            )

        def move(session: Session) -> None:
            for k in range(steps):
                session.input.move_mouse(*(delta * (k + 1) // steps - delta * k // steps for delta in (dx, dy)))

        self._game.use("input", move)
        return pb2.MoveMouseResponse(success=True, message=f"moved by ({dx}, {dy})")

    def _send_keys(self, keys: Sequence[str]) -> None:
        self._game.use("input", lambda session: session.input.set_held(keys))

    def _capture_frame(self, _request: pb2.CaptureFrameRequest, _context: Any) -> pb2.CaptureFrameResponse:
        pixels = self._grab().pixels
        return pb2.CaptureFrameResponse(
            success=True, message="ok", frame=bgra_of(pixels), width=pixels.shape[1], height=pixels.shape[0]
        )

    def _stream_frames(self, request: pb2.StreamFramesRequest, context: Any) -> Iterator[pb2.FrameData]:
        return stream_frames(request, self._grab, self._options.stream_hz, self._streams, context)

    def _grab(self) -> Frame:
        return self._game.use("capture", lambda session: session.capture(NATIVE))

    def _execute_command(self, request: pb2.ExecuteCommandRequest, context: Any) -> pb2.ExecuteCommandResponse:
        return self._programs.run(request, gone_event(context))

    def _set_process_config(self, request: pb2.SetProcessConfigRequest, _context: Any) -> pb2.SetProcessConfigResponse:
        message = self._game.configure(request)
        if not self._game.parts:
            self._keys.forget()
        return pb2.SetProcessConfigResponse(success=True, message=text_of(message))

    def _initialize_memory(self, _: pb2.InitializeMemoryRequest, _context: Any) -> pb2.InitializeMemoryResponse:
        pid = self._game.open_memory()
        missing = self._game.missing()
        note = f"; not found, and not readable: {', '.join(missing)}" if missing else ""
        return pb2.InitializeMemoryResponse(success=True, message=text_of(f"process {pid}{note}"), process_id=pid)

    def _initialize_input(self, request: pb2.InitializeInputRequest, _context: Any) -> pb2.InitializeInputResponse:
        self._game.open_window(request.window_name, "input")
        return pb2.InitializeInputResponse(success=True, message="keys and mouse are ready")

    def _initialize_capture(
        self, request: pb2.InitializeCaptureRequest, _context: Any
    ) -> pb2.InitializeCaptureResponse:
        width, height = self._game.open_window(request.window_name, "capture")
        return pb2.InitializeCaptureResponse(
            success=True, message=f"the window is {width}x{height}", window_width=width, window_height=height
        )

    def _get_server_status(self, _request: pb2.GetServerStatusRequest, _context: Any) -> pb2.GetServerStatusResponse:
        game = self._game
        profile, parts = game.profile, game.parts
        return pb2.GetServerStatusResponse(
            success=True,
            message=f"initialised: {', '.join(sorted(parts)) or 'nothing'}",
            memory_initialized="memory" in parts,
            input_initialized="input" in parts,
            capture_initialized="capture" in parts,
            config_set=profile is not None,
            process_name=profile.process.executable if profile is not None else "",
            window_name=game.window_name,
            process_id=game.pid,
        )

    def _start_recording(self, request: pb2.StartRecordingRequest, context: Any) -> pb2.StartRecordingResponse:
        for name in request.attribute_names:
            self._game.attribute(name)
        parts = self._game.parts
        source = self._game.use("memory", lambda session: SharedGame(self._game, session.profile))
        options: dict[str, Any] = {"with_keys": "input" in parts}
        if "capture" not in parts:
            options["frames"] = "none"
        recording_id = self._recordings.start(source, request, context.peer(), **options)
        self._peers.wake()
        message = f"recording to {self._recordings.find(recording_id).path}"
        return pb2.StartRecordingResponse(success=True, message=text_of(message), session_id=recording_id)

    def _stop_recording(self, request: pb2.StopRecordingRequest, _context: Any) -> pb2.StopRecordingResponse:
        failure = ""
        recorder = self._recordings.find(request.session_id)
        try:
            status = recorder.stop()
        except RecordingError as error:
            failure, status = str(error), recorder.status()
        return pb2.StopRecordingResponse(
            success=not failure,
            message=text_of(failure or f"ended: {status.end}"),
            total_frames=_int32(status.n_samples),
            average_latency_ms=status.average_latency_ms,
            dropped_frames=_int32(status.n_dropped),
            actual_duration_seconds=status.duration_s,
            actual_fps=status.rate_hz,
        )

    def _get_recording_status(
        self, request: pb2.GetRecordingStatusRequest, _context: Any
    ) -> pb2.GetRecordingStatusResponse:
        status = self._recordings.find(request.session_id).status()
        return pb2.GetRecordingStatusResponse(
            success=not status.error,
            message=text_of(status.error or (f"ended: {status.end}" if status.end else status.problem or "recording")),
            is_recording=status.is_recording,
            current_frame=_int32(status.n_samples),
            elapsed_time_seconds=status.duration_s,
            current_latency_ms=status.latency_ms,
            dropped_frames=_int32(status.n_dropped),
        )

    def _download_recording(self, request: pb2.DownloadRecordingRequest, _context: Any) -> Iterator[pb2.RecordingChunk]:
        return self._recordings.chunks(request.session_id)

    def _client_is_gone(self, peer: str, for_s: float) -> None:
        """Release the resources of a disconnected client."""
        try:
            if for_s >= self._options.keys_after_s and (keys := self._keys.release_of(peer)):
                _log.info("%s is gone; released %s", peer, ", ".join(keys))
            if for_s >= self._options.recordings_after_s and (stopped := self._recordings.stop_of(peer)):
                _log.info("%s is gone; stopped recording %s", peer, ", ".join(stopped))
        except SoulslabError as error:  # the game has ended, and its keys with it
            _log.warning("cannot release what %s held: %s", peer, error)


def _int32(number: int) -> int:
    return min(number, INT32.stop - 1)


class SharedGame:
    """The current session of an attachment as `soulslab.siphon.recording.recorder.Recordable`."""

    def __init__(self, game: Attachment, profile: Profile) -> None:
        self.profile = profile
        self._game = game

    @property
    def input(self) -> Input:
        """Input of the current session."""
        return self._game.use("input", lambda session: session.input)

    def snapshot(self, names: Collection[str] | None = None) -> Snapshot:
        """Read attributes."""
        wanted = list(names) if names is not None else None
        return self._game.use("memory", lambda session: session.snapshot(wanted))

    def capture(self, frame_format: FrameFormat) -> Frame:
        """Capture the window."""
        return self._game.use("capture", lambda session: session.capture(frame_format))


def stream_frames(
    request: pb2.StreamFramesRequest,
    capture: Callable[[], Frame],
    rate_hz: float,
    streams: LimitedCalls,
    context: Any,
) -> Iterator[pb2.FrameData]:
    """Yield frames at a rate until the call ends. Raises `SiphonError` for an invalid request or if the window is gone.

    A client that stops a stalled stream (as pysiphon does) leaves it open until its connection ends, and each stream
    occupies a thread. Therefore `streams` limits their number; one more ends the stream that has been stalled longest.
    """
    gone = gone_event(context)
    kind, quality = _checked(request)
    with streams.entered(context) as mark_active:
        due_s, number = time.perf_counter(), 0
        while not gone.wait(max(0.0, due_s - time.perf_counter())):
            number += 1
            yield _frame_data(capture(), kind, quality, number)
            mark_active()
            # Late frames are skipped.
            due_s = max(due_s + 1.0 / rate_hz, time.perf_counter())


def bgra_of(pixels: NDArray[np.uint8]) -> bytes:
    """Return a frame as raw BGRA, row by row from the top."""
    return cv2.cvtColor(pixels, cv2.COLOR_RGB2BGRA).tobytes()


def _checked(request: pb2.StreamFramesRequest) -> tuple[str, int]:
    kind, quality = request.format or "jpeg", request.quality or DEFAULT_QUALITY
    if kind not in ("jpeg", "raw"):
        raise SiphonError(f"the format is {kind[:64]!r}; it is 'jpeg' or 'raw'")
    if not 1 <= quality <= 100:
        raise SiphonError(f"the quality is {quality}; it is 1 to 100, or 0 for {DEFAULT_QUALITY}")
    return kind, quality


def _frame_data(frame: Frame, kind: str, quality: int, number: int) -> pb2.FrameData:
    pixels = np.ascontiguousarray(frame.pixels)
    height, width = pixels.shape[:2]
    if kind == "raw":
        data = bgra_of(pixels)
    else:
        data = bytes(simplejpeg.encode_jpeg(pixels, quality=quality, colorspace="RGB", colorsubsampling="420"))
    return pb2.FrameData(
        data=data,
        timestamp_us=int(frame.wall_time_s * 1e6),
        width=width,
        height=height,
        frame_number=number % 2**31,
        format=kind,
    )
