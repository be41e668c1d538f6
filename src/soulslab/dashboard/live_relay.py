"""Relay of live feeds and of recorded fights to browsers.

For each run that is watched, one task reads the feed of the actor, draws each decision once, and offers it to all
browsers. A browser asks for each message, because websockets of browsers have no back-pressure; of the messages that a
slow browser did not ask for, the oldest are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import cv2
import msgspec
import numpy as np
from fastapi import FastAPI, Response, WebSocket, WebSocketDisconnect
from fastapi.responses import PlainTextResponse

from soulslab.config.input_files import parse_json, read_bytes
from soulslab.dashboard.recorded_fights import find_fight_sets
from soulslab.dashboard.replay_process import END, FAILURE, MESSAGE, ReplayProcess, ReplayProcesses, ReplayRequest
from soulslab.dashboard.run_library import RunLibrary
from soulslab.dashboard.scene_view import SceneView, pack
from soulslab.errors import ChannelError, SoulslabError
from soulslab.learn.live_feed import (
    FEED_NAME,
    GAME_FEEDS,
    LENGTH,
    MAX_MESSAGE_BYTES,
    SIMULATED_DECISION_S,
    WATCHED_DECISION_S,
    Ending,
    FeedAddress,
    FeedInfo,
    FeedMessage,
    Moment,
    game_feed,
)

_MAX_WAITING: Final = 20
_RETRY_S: Final = 1.0
_MAX_REPLAYS: Final = 2
"""Number of recorded fights that are replayed at a time; each takes a core, which a training run may need."""

_REQUEST_TIMEOUT_S: Final = 60.0
"""Time after which a browser that does not ask for the next message of a replay is disconnected (s)."""

FRAMES_EVERY_S: Final = 4.0
"""Time for which the last picture of a feed is shared by all pages (s)."""

_FRAME_TIMEOUT_S: Final = 1.0
_FRAME_WIDTH_PX: Final = 160

_MAX_ADDRESS_BYTES: Final = 4096
_log = logging.getLogger(__name__)


class LiveRelays:
    """The relays of all runs and games that are watched now, and the replays of recorded fights."""

    def __init__(self) -> None:
        self._relays: dict[Path, _Relay] = {}
        self._frames: dict[Path, tuple[float, asyncio.Task[bytes]]] = {}
        self._replays = ReplayProcesses()
        self._is_free = asyncio.Semaphore(_MAX_REPLAYS)

    def add_routes(self, api: FastAPI, library: RunLibrary) -> None:
        """Add the websockets of live feeds and recorded fights, and the videos of recorded fights."""

        @api.get("/video/{name:path}")
        async def video(name: str, fight: int = 0) -> Response:
            folder = (await asyncio.to_thread(find_fight_sets, library)).get(name)
            if folder is None:
                return PlainTextResponse("no such recorded fights", 404)
            with TemporaryDirectory(prefix="soulslab_video_") as temporary:
                path = Path(temporary) / "fight.mp4"
                request = ReplayRequest(folder=str(folder), fight=fight, film=str(path))
                async with self._replay(request) as process:
                    kind, problem = await asyncio.to_thread(process.read)
                    if kind == FAILURE:
                        await asyncio.to_thread(process.read)  # the end, so that the process can be used again
                        return PlainTextResponse(problem.decode(), 422)
                return Response(path.read_bytes(), media_type="video/mp4")

        @api.websocket("/feed/{run_id:path}")
        async def feed(websocket: WebSocket, run_id: str, game: str = "") -> None:
            folder = library.folder(run_id)
            path = feed_path(folder, game) if folder is not None else None
            await websocket.accept()
            if path is None:
                await websocket.close(4404, "no such run or game")
                return
            relay = self._relays.setdefault(path, _Relay(path))
            try:
                await relay.serve(websocket)
            except (WebSocketDisconnect, RuntimeError):  # RuntimeError: sending after the browser has gone
                _log.debug("a browser has disconnected")
            finally:
                if relay.is_idle and self._relays.get(path) is relay:
                    del self._relays[path]

        @api.websocket("/replayed/{name:path}")
        async def replayed(websocket: WebSocket, name: str, fight: int = 0, policy: str = "") -> None:
            await websocket.accept()
            folder = (await asyncio.to_thread(find_fight_sets, library)).get(name)
            if folder is None:
                await websocket.close(4404, "There are no such recorded fights any more.")
                return
            run = await asyncio.to_thread(library.folder, policy) if policy else None
            request = ReplayRequest(folder=str(folder), fight=fight, policy=str(run) if run is not None else "")
            try:
                async with self._replay(request) as process:
                    await _relay_replay(websocket, process)
                await websocket.close()
            except TimeoutError:
                problem = f"The page asked for no decision in {_REQUEST_TIMEOUT_S:.0f} s; load it again."
                await websocket.close(4408, problem)
            except (WebSocketDisconnect, RuntimeError):
                _log.debug("a browser has disconnected")

    async def last_frame(self, path: Path) -> bytes:
        """Return a small picture of a recent decision of a feed as a JPEG; empty if there is none.

        All pages share it for `FRAMES_EVERY_S`, because a feed serves only a few viewers.
        """
        now_s = time.monotonic()
        self._frames = {each: found for each, found in self._frames.items() if now_s - found[0] < FRAMES_EVERY_S}
        if path not in self._frames:
            self._frames[path] = now_s, asyncio.create_task(_last_frame(path))
        return await asyncio.shield(self._frames[path][1])  # a page that is closed must not cancel it for others

    @asynccontextmanager
    async def _replay(self, request: ReplayRequest) -> AsyncIterator[ReplayProcess]:
        """Yield a process that answers a request; it is ended if its answers are not read to the end."""
        async with self._is_free:
            process = await asyncio.to_thread(self._replays.take)
            try:
                process.ask(request)
                yield process
            finally:
                self._replays.give_back(process)


async def _relay_replay(websocket: WebSocket, process: ReplayProcess) -> None:
    """Send the messages of a recorded fight, each after the browser has asked for it."""
    kind = MESSAGE
    while kind != END:
        kind, message = await asyncio.to_thread(process.read)
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            await websocket.receive_text()
        if kind != END:
            text = message.decode() if kind == FAILURE else ""
            await websocket.send_bytes(pack({"type": "failure", "text": text}) if text else message)


def feed_path(folder: Path, game: str = "") -> Path | None:
    """Return the path of the feed of a run, or of a game of its fleet; None for a game on another machine."""
    if not game:
        return folder / FEED_NAME
    path = game_feed(folder / GAME_FEEDS, game)
    # The name comes from the address of the page: it must not name another folder, and may be too long for a file.
    is_inside = path.parent.parent == folder / GAME_FEEDS and path.parent.name != ".."
    return path if is_inside and os.path.exists(path) else None  # noqa: PTH110 - Path.exists raises for long names


async def _last_frame(path: Path) -> bytes:
    """Return a small picture of the next decision of a feed as a JPEG; empty if there is none within a second."""
    try:
        async with asyncio.timeout(_FRAME_TIMEOUT_S), aclosing(_feed_messages(path)) as messages:
            view: SceneView | None = None
            async for message in messages:
                if isinstance(message, FeedInfo):
                    view = SceneView(message)
                elif isinstance(message, Moment) and view is not None:
                    return await asyncio.to_thread(_small_picture, view, message)
    except (OSError, EOFError, SoulslabError, msgspec.MsgspecError, TimeoutError) as error:
        _log.debug("%s: %s", path, error)
    return b""


def _small_picture(view: SceneView, moment: Moment) -> bytes:
    """Return the picture of a decision as a JPEG with a width of `_FRAME_WIDTH_PX`; empty without a picture."""
    picture = view.picture(moment)
    if not picture:
        return b""
    frame = cv2.imdecode(np.frombuffer(picture, np.uint8), cv2.IMREAD_COLOR)
    if frame is None:
        return b""
    height = round(_FRAME_WIDTH_PX * frame.shape[0] / frame.shape[1])
    resized = cv2.resize(frame, (_FRAME_WIDTH_PX, height), interpolation=cv2.INTER_AREA)
    return cv2.imencode(".jpg", resized)[1].tobytes()


async def _feed_messages(path: Path) -> AsyncGenerator[FeedMessage, None]:
    """Yield the messages of a feed, asking for the next one when it is needed."""
    address = await asyncio.to_thread(_read_address, path)
    reader, writer = await asyncio.open_connection("127.0.0.1", address.port)
    decoder = msgspec.msgpack.Decoder(FeedMessage)
    try:
        writer.write(address.key.encode())
        while True:
            [length] = LENGTH.unpack(await reader.readexactly(LENGTH.size))
            if length > MAX_MESSAGE_BYTES:
                raise ChannelError(path, f"a message of {length} bytes is too long")
            yield decoder.decode(await reader.readexactly(length))
            writer.write(b"n")
    finally:
        writer.close()


class _Browser:
    """The messages that wait for a browser; of too many, the oldest are dropped."""

    def __init__(self) -> None:
        self._waiting: deque[bytes] = deque(maxlen=_MAX_WAITING)
        self._has_message = asyncio.Event()

    def offer(self, message: bytes) -> None:
        self._waiting.append(message)
        self._has_message.set()

    async def next(self) -> bytes:
        await self._has_message.wait()
        message = self._waiting.popleft()
        if not self._waiting:
            self._has_message.clear()
        return message


class _Relay:
    """Reads one feed while at least one browser watches."""

    def __init__(self, address: Path) -> None:
        self._address = address
        self._browsers: set[_Browser] = set()
        self._task: asyncio.Task[None] | None = None
        self._first: dict[str, bytes] = {}
        self._warned: set[str] = set()

    @property
    def is_idle(self) -> bool:
        """Whether no browser watches."""
        return not self._browsers

    async def serve(self, websocket: WebSocket) -> None:
        """Send messages to a browser, each after it has asked for it, until it disconnects."""
        browser = _Browser()
        for message in self._first.values():
            browser.offer(message)
        self._browsers.add(browser)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        asked = asyncio.Semaphore(0)
        sender = asyncio.create_task(_send(websocket, browser, asked))
        try:
            while True:
                await websocket.receive_text()
                asked.release()
        finally:
            self._browsers.discard(browser)
            tasks = [sender]
            if self.is_idle and self._task is not None:
                # A browser that connects while this task ends starts another one.
                tasks.append(self._task)
                self._task = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        """Read the feed, and connect again when it ends, until the task is cancelled."""
        while True:
            try:
                async for message in self._messages():
                    self._offer(*message)
            except (OSError, EOFError, SoulslabError, msgspec.MsgspecError) as error:
                self._report(error, "the feed cannot be read")
            except Exception as error:  # noqa: BLE001  (a message of another version; browsers wait for the next one)
                _log.warning("%s: the feed cannot be read: %r", self._address, error)
            self._offer("status", pack({"type": "status", "is_live": False}))
            await asyncio.sleep(_RETRY_S)

    def _report(self, error: Exception, effect: str) -> None:
        """Log an error and its effect: a fault once as a warning. A feed without a file has not begun, or has ended."""
        is_open = os.path.exists(self._address)  # noqa: PTH110 - Path.exists raises PermissionError
        if not isinstance(error, SoulslabError) or not is_open or str(error) in self._warned:
            _log.debug("%s: %s: %s", self._address, effect, error)
            return
        self._warned.add(str(error))
        _log.warning("%s: %s: %s", self._address, effect, error)

    def _offer(self, kind: str, message: bytes) -> None:
        """Offer a message to all browsers, and keep the newest of its kind for browsers that connect later."""
        self._first[kind] = message
        for browser in self._browsers:
            browser.offer(message)

    async def _messages(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield the messages for the browsers, with their kind; those of a simulator at ten decisions per second."""
        view: SceneView | None = None
        shown_s = taken_s = 0.0
        async with aclosing(_feed_messages(self._address)) as messages:
            async for message in messages:
                if isinstance(message, FeedInfo):
                    view = SceneView(message)
                    if view.problem is not None:
                        self._report(view.problem, "the fight cannot be drawn")
                    self._first.clear()
                    yield "status", pack({"type": "status", "is_live": True})
                    yield "info", pack(view.info())
                elif isinstance(message, Ending):
                    yield "ending", pack({"type": "ending", "fight": message.fight, "is_won": message.is_won})
                elif view is not None:
                    if message.wall_s - taken_s < SIMULATED_DECISION_S:
                        await asyncio.sleep(shown_s + WATCHED_DECISION_S - time.monotonic())
                    shown_s, taken_s = time.monotonic(), message.wall_s
                    yield "moment", await asyncio.to_thread(_draw, view, message)


async def _send(websocket: WebSocket, browser: _Browser, asked: asyncio.Semaphore) -> None:
    """Send a message for each request of a browser."""
    while True:
        await asked.acquire()
        await websocket.send_bytes(await browser.next())


def _read_address(path: Path) -> FeedAddress:
    fail = partial(ChannelError, path)
    return parse_json(read_bytes(path, _MAX_ADDRESS_BYTES, fail), FeedAddress, fail)


def _draw(view: SceneView, moment: Moment) -> bytes:
    content: dict[str, Any] = view.describe(moment)
    return pack(content, view.picture(moment))
