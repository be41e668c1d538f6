"""Videos of fights as MP4 files, written frame by frame."""

from __future__ import annotations

import logging
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias, cast

import av
import cv2
import gymnasium
import numpy as np
from av.video.stream import VideoStream
from numpy.typing import NDArray

from soulslab.errors import EnvironmentUsageError, NoWinError, VideoError

_log = logging.getLogger(__name__)

#: Function from observation, action mask (None if there is none) and number of past game decisions to an action.
Act: TypeAlias = Callable[[Any, Any, int], Any]

#: Encoders in order of preference, with their options. The frames have flat areas and sharp edges; a rate factor of 26
#: of x264 preserves both, and keeps a fight of a minute below 6 MB.
CODECS: dict[str, dict[str, str]] = {
    "libx264": {"crf": "26", "preset": "veryfast", "tune": "animation"},
    "mpeg4": {"qscale": "5"},
}
#: Duration for which the last frame is shown.
HOLD_S = 2.0
ENCODER_THREADS = 2
SEEDS = 2**31


class Mp4Writer:
    """Writes an MP4 file; use it as a context, and call `keep` when the video is complete.

    Frames are written to a temporary file in the same folder. Without `keep`, or after an error, it is deleted. Raises
    `VideoError` if PyAV has no encoder for a format that browsers support.
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
        # The index is at the front, so that a browser can play the video while loading it.
        self._file = av.open(str(self._partial), "w", format="mp4", options={"movflags": "+faststart"})

    def write(self, frame: NDArray[np.uint8]) -> None:
        """Append a frame, (H, W, 3) uint8; an odd last row or column is removed, as the format requires.

        Raises `VideoError` if the frame has another size than the first one, or is not an image.
        """
        if frame.ndim != 3 or frame.shape[2] != 3 or frame.dtype != np.uint8:
            raise VideoError(self._path, f"a frame must be uint8 (H, W, 3), not {frame.dtype} {frame.shape}")
        height, width = frame.shape[0] // 2 * 2, frame.shape[1] // 2 * 2
        stream = self._stream = self._stream or self._open_stream(height, width)
        if (stream.height, stream.width) != (height, width):
            raise VideoError(
                self._path, f"a frame of {width} x {height} follows frames of {stream.width} x {stream.height}"
            )
        # OpenCV converts colours six times as fast as the scaler of PyAV.
        planes = cv2.cvtColor(np.ascontiguousarray(frame[:height, :width]), cv2.COLOR_RGB2YUV_I420)
        picture = av.VideoFrame.from_ndarray(np.asarray(planes, np.uint8), format="yuv420p")
        self._file.mux(stream.encode(picture))

    def keep(self) -> None:
        """Complete the file on exit of the context, instead of deleting it."""
        self._is_kept = True

    def _open_stream(self, height: int, width: int) -> VideoStream:
        codec = self._codec or ""
        stream = cast("VideoStream", self._file.add_stream(codec, rate=self._rate, options=dict(CODECS[codec])))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        # Encode on other cores while the next frame is drawn; a fixed number of threads makes the file reproducible.
        stream.codec_context.thread_count = ENCODER_THREADS
        return stream

    def __enter__(self) -> Mp4Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        stream = self._stream if self._is_kept and kind is None else None
        try:
            if stream is not None:
                self._file.mux(stream.encode(None))
            self._file.close()
            if stream is not None:
                self._partial.replace(self._path)
        finally:
            self._partial.unlink(missing_ok=True)


def find_won_fight(env: gymnasium.Env[Any, Any], act: Act, *, seed: int = 0, max_attempts: int = 100) -> int:
    """Play fights until one is won, and return its seed; attempt i has the seed ``seed + i``.

    It is fastest without a render mode. Raises `NoWinError` if no fight was won.
    """
    n_played = _play_until_won(lambda fight_seed: _play(env, act, fight_seed), seed, max_attempts)
    return (seed + n_played - 1) % SEEDS


def record_won_fight(
    env: gymnasium.Env[Any, Any], act: Act, path: Path, *, seed: int = 0, max_attempts: int = 20
) -> int:
    """Play fights until one is won, and write that fight as an MP4 file; return the number of fights played.

    Attempt i has the seed ``seed + i``. See `record_fight`; raises also `NoWinError` if no fight was won, and
    `EnvironmentUsageError` if ``max_attempts`` is less than 1.
    """
    if max_attempts < 1:
        raise EnvironmentUsageError(f"max_attempts must be at least 1, not {max_attempts}")
    return _play_until_won(
        lambda fight_seed: record_fight(env, act, path, seed=fight_seed, needs_win=True), seed, max_attempts
    )


def record_fight(
    env: gymnasium.Env[Any, Any], act: Act, path: Path, *, seed: int = 0, needs_win: bool = False
) -> bool | None:
    """Play one fight and write it as an MP4 file; return whether it was won (``info["fight"]["won"]`` at its end).

    The result is None if the environment reports no fight.

    The environment must be made with ``render_mode="rgb_array_list"`` (the arena then renders 30 frames per second) or
    ``"rgb_array"`` (one frame per step). The file is replaced only by a complete video; with ``needs_win``, only by
    that of a won fight. Raises EnvironmentUsageError if the environment does not render images, VideoError if the video
    could not be encoded.
    """
    if env.render_mode not in ("rgb_array", "rgb_array_list"):
        raise EnvironmentUsageError(
            f"render_mode must be 'rgb_array' or 'rgb_array_list' to record, not {env.render_mode!r}"
        )
    _log.info("playing and filming a fight")
    with Mp4Writer(path, _fps(env)) as film:
        is_won = _play(env, act, seed % SEEDS, film)
        if is_won or not needs_win:
            film.keep()
    return is_won


def _play_until_won(play: Callable[[int], bool | None], seed: int, max_attempts: int) -> int:
    """Play fights with consecutive seeds until one is won; return how many were played."""
    for attempt in range(max_attempts):
        if play((seed + attempt) % SEEDS):
            return attempt + 1
        _log.info("fight %d of at most %d was lost", attempt + 1, max_attempts)
    raise NoWinError(max_attempts)


def _play(env: gymnasium.Env[Any, Any], act: Act, seed: int, film: Mp4Writer | None = None) -> bool | None:
    """Play one fight, and record it with its last frame held if there is a film; return as `record_fight`."""
    observation, info = env.reset(seed=seed)
    is_over, n_decisions = False, 0
    while True:
        if film is not None:
            pictures: Any = env.render()
            frames = pictures if isinstance(pictures, list) else [pictures]
            for frame in frames + frames[-1:] * (round(HOLD_S * _fps(env)) if is_over else 0):
                film.write(frame)
        if is_over:
            return bool(info["fight"]["won"]) if "fight" in info else None
        action = act(observation, info.get("action_mask"), n_decisions)
        observation, _, terminated, truncated, info = env.step(action)
        n_decisions += info.get("n_decisions", 1)
        is_over = terminated or truncated


def _fps(env: gymnasium.Env[Any, Any]) -> float:
    """Return the frame rate of the environment; 30 if it has none, as in Gymnasium's wrappers."""
    return float(env.metadata.get("render_fps", 30))
