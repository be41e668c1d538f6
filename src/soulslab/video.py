"""Fights as MP4 files that play everywhere, written frame by frame."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, cast

import av
import cv2
import gymnasium
import numpy as np
from av.video.stream import VideoStream
from numpy.typing import NDArray

from soulslab.errors import EnvironmentUsageError, NoWinError, VideoError

_log = logging.getLogger(__name__)

#: (observation, action mask) to action.
Act: TypeAlias = Callable[[Any, NDArray[np.bool_] | None], Any]

#: Encoders in the order of choice, with their options. A drawing has flat areas and sharp edges: x264's rate factor 26
#: keeps both, and a fight of a minute below 6 MB.
CODECS: dict[str, dict[str, str]] = {
    "libx264": {"crf": "26", "preset": "veryfast", "tune": "animation"},
    "mpeg4": {"qscale": "5"},
}
#: The last picture stays for this long.
HOLD_S = 2.0
ENCODER_THREADS = 2
SEEDS = 2**31
LOST = "fight %d of at most %d was lost; trying the next"


class Mp4Writer:
    """An MP4 file that appears when it is complete: use it as a context, then call `keep`.

    Frames go to a file beside it. Without `keep`, or when the context is left by an error, nothing remains.

    Args:
        path: The file; an existing one is replaced.
        fps: Frames a second.

    Raises:
        VideoError: PyAV has no encoder that browsers play.
    """

    def __init__(self, path: Path, fps: float) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        self._codec = next((name for name in CODECS if name in av.codecs_available), None)
        if self._codec is None:
            raise VideoError(path, f"PyAV {av.__version__} has none of the encoders {', '.join(CODECS)}")
        self._rate = Fraction(fps).limit_denominator(1000)
        self._stream: VideoStream | None = None
        self._is_kept = False
        path.parent.mkdir(parents=True, exist_ok=True)
        # The index goes to the front, so that a browser can play while it loads.
        self._file = av.open(str(self._partial), "w", format="mp4", options={"movflags": "+faststart"})

    def write(self, frame: NDArray[np.uint8]) -> None:
        """Append a frame, (H, W, 3) uint8; an odd last row or column is left out, as the format wants.

        Raises:
            VideoError: The frame has another size than the first one, or is no picture.
        """
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise VideoError(self._path, f"a frame must be uint8 (H, W, 3), not {frame.dtype} {frame.shape}")
        height, width = frame.shape[0] // 2 * 2, frame.shape[1] // 2 * 2
        stream = self._stream = self._stream or self._open_stream(height, width)
        if (stream.height, stream.width) != (height, width):
            raise VideoError(
                self._path, f"a frame of {width} x {height} follows frames of {stream.width} x {stream.height}"
            )
        # OpenCV turns colours round six times as fast as the library's own scaler.
        planes = cv2.cvtColor(np.ascontiguousarray(frame[:height, :width]), cv2.COLOR_RGB2YUV_I420)
        picture = av.VideoFrame.from_ndarray(np.asarray(planes, np.uint8), format="yuv420p")
        self._file.mux(stream.encode(picture))

    def keep(self) -> None:
        """Finish the file when the context ends, instead of dropping it."""
        self._is_kept = True

    def _open_stream(self, height: int, width: int) -> VideoStream:
        codec = self._codec or ""
        stream = cast("VideoStream", self._file.add_stream(codec, rate=self._rate, options=dict(CODECS[codec])))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        # Encoded on other cores while the next frame is drawn; a fixed number keeps equal films equal to the byte.
        stream.codec_context.thread_count = ENCODER_THREADS
        return stream

    def __enter__(self) -> Mp4Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_kept = self._is_kept and kind is None and self._stream is not None
        try:
            if is_kept and self._stream is not None:
                self._file.mux(self._stream.encode(None))
            self._file.close()
            if is_kept:
                self._partial.replace(self._path)
        finally:
            self._partial.unlink(missing_ok=True)


def find_won_fight(env: gymnasium.Env[Any, Any], act: Act, *, seed: int = 0, max_attempts: int = 100) -> int:
    """Play fights until one is won, and return its seed.

    Args:
        env: A Gymnasium environment; without a render mode it is quick.
        act: Chooses an action from the observation and ``info["action_mask"]`` (None if there is none).
        seed: Of the first fight; attempt i is seeded with ``seed + i``.
        max_attempts: Fights to play, at least 1.

    Raises:
        NoWinError: None was won.
    """
    for attempt in range(max_attempts):
        fight_seed = (seed + attempt) % SEEDS
        observation, info = env.reset(seed=fight_seed)
        is_over = False
        while not is_over:
            observation, _, terminated, truncated, info = env.step(act(observation, info.get("action_mask")))
            is_over = terminated or truncated
        if info.get("fight", {}).get("won", False):
            return fight_seed
        _log.info(LOST, attempt + 1, max_attempts)
    raise NoWinError(max_attempts)


def record_won_fight(
    env: gymnasium.Env[Any, Any], act: Act, path: Path, *, seed: int = 0, max_attempts: int = 20
) -> int:
    """Play fights until one is won, and write that one as an MP4.

    Args:
        env: A Gymnasium environment made with ``render_mode="rgb_array_list"`` (with the arena's own, 30 frames a
            second) or ``"rgb_array"`` (a frame a step). A fight is won if the last step's ``info["fight"]["won"]``.
        act: Chooses an action from the observation and ``info["action_mask"]`` (None if there is none).
        path: The file; it is replaced only by a complete film of a won fight.
        seed: Of the first fight; attempt i is seeded with ``seed + i``.
        max_attempts: Fights to play, at least 1.

    Returns:
        The number of fights played, the won one included.

    Raises:
        EnvironmentUsageError: The environment renders no pictures, or ``max_attempts`` is less than 1.
        NoWinError: None was won.
        VideoError: The film could not be encoded.
    """
    _check_render_mode(env)
    if max_attempts < 1:
        raise EnvironmentUsageError(f"max_attempts must be at least 1, not {max_attempts}")
    for attempt in range(max_attempts):
        with Mp4Writer(path, _fps(env)) as film:
            if _play(env, act, (seed + attempt) % SEEDS, film):
                film.keep()
                return attempt + 1
        _log.info(LOST, attempt + 1, max_attempts)
    raise NoWinError(max_attempts)


def record_fight(env: gymnasium.Env[Any, Any], act: Act, path: Path, *, seed: int = 0) -> bool:
    """Play one fight and write it as an MP4, whatever its outcome.

    Args:
        env: See `record_won_fight`.
        act: See `record_won_fight`.
        path: The file; it is replaced when the film is complete.
        seed: Of the fight.

    Returns:
        Whether the fight was won.

    Raises:
        EnvironmentUsageError: The environment renders no pictures.
        VideoError: The film could not be encoded.
    """
    _check_render_mode(env)
    with Mp4Writer(path, _fps(env)) as film:
        is_won = _play(env, act, seed % SEEDS, film)
        film.keep()
    return is_won


def _check_render_mode(env: gymnasium.Env[Any, Any]) -> None:
    if env.render_mode not in ("rgb_array", "rgb_array_list"):
        raise EnvironmentUsageError(
            f"render_mode must be 'rgb_array' or 'rgb_array_list' to record, not {env.render_mode!r}"
        )


def _play(env: gymnasium.Env[Any, Any], act: Act, seed: int, film: Mp4Writer) -> bool:
    """Play and film one fight, holding its last picture; return whether it was won."""
    observation, info = env.reset(seed=seed)
    is_over = False
    while True:
        frames = _new_frames(env)
        for frame in frames:
            film.write(frame)
        if is_over:
            break
        observation, _, terminated, truncated, info = env.step(act(observation, info.get("action_mask")))
        is_over = terminated or truncated
    for _ in range(round(HOLD_S * _fps(env))):
        film.write(frames[-1])
    return bool(info.get("fight", {}).get("won", False))


def _new_frames(env: gymnasium.Env[Any, Any]) -> list[NDArray[np.uint8]]:
    pictures: Any = env.render()
    return pictures if isinstance(pictures, list) else [pictures]


def _fps(env: gymnasium.Env[Any, Any]) -> float:
    """Return the frames a second that the environment asks for; Gymnasium's wrappers take 30 where it does not."""
    return float(env.metadata.get("render_fps", 30))
