"""Contract of all capture backends; subclasses provide the fixture `rig`."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import contextmanager

import cv2
import numpy as np
import pytest

from soulslab.errors import WindowGoneError
from soulslab.siphon.capture import NATIVE, Capture, FrameFormat


class CaptureRig(ABC):
    """A program with a window at (10, 10) with 200x100 pixels, which paints known pixels.

    Each method returns when the program has done it.
    """

    @abstractmethod
    def open(self) -> Capture:
        """Open a capture of the window; the rig closes it."""

    @abstractmethod
    def paint(self, seed: int) -> None:
        """Paint the pixels of `picture` in the present size of the window."""

    @abstractmethod
    def picture(self, width: int, height: int, seed: int):
        """Return the painted pixels: (H, W, 3) uint8, RGB."""

    @abstractmethod
    def place(self, x: int, y: int, width: int, height: int) -> None:
        """Move the window and change its size."""

    @abstractmethod
    def hide(self) -> None:
        """Iconify or unmap the window."""

    @abstractmethod
    def show(self) -> None:
        """Show the hidden window."""

    @abstractmethod
    def destroy(self) -> None:
        """Close the window."""

    @abstractmethod
    def point(self) -> None:
        """Move the pointer over the window."""

    def assert_shows(self, capture: Capture, width: int, height: int, seed: int) -> None:
        """Assert that a capture shows painted pixels."""
        assert np.array_equal(capture.grab(NATIVE), self.picture(width, height, seed))
        assert capture.size_px == (width, height)


class CaptureContract:
    """`rig` is a `CaptureRig`."""

    def test_every_pixel_is_right(self, rig):
        capture = rig.open()
        rig.place(13, 7, 201, 101)
        for seed in range(1, 6):
            rig.paint(seed)
            rig.assert_shows(capture, 201, 101, seed)

    def test_grey_and_small_frames_equal_the_conversion_by_opencv(self, rig):
        rig.paint(1)
        capture = rig.open()
        rgb = rig.picture(200, 100, 1)
        grey = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY)
        small = {"dsize": (84, 84), "interpolation": cv2.INTER_AREA}
        assert np.array_equal(capture.grab(FrameFormat(is_grey=True)), grey)
        assert np.array_equal(capture.grab(FrameFormat(84, 84)), cv2.resize(rgb, **small))
        assert np.array_equal(capture.grab(FrameFormat(84, 84, is_grey=True)), cv2.resize(grey, **small))

    def test_a_frame_does_not_change_with_the_next_one(self, rig):
        capture = rig.open()
        rig.paint(1)
        frame = capture.grab(NATIVE)
        rig.paint(2)
        capture.grab(NATIVE)
        assert np.array_equal(frame, rig.picture(200, 100, 1))

    def test_a_frame_is_never_older_than_the_last_drawing(self, rig):
        capture = rig.open()
        for seed in range(1, 101):
            rig.paint(seed)
            rig.assert_shows(capture, 200, 100, seed)

    def test_it_is_followed_when_it_moves_and_changes_its_size(self, rig):
        capture = rig.open()
        rig.paint(1)
        rig.assert_shows(capture, 200, 100, 1)
        rig.place(50, 90, 200, 100)
        rig.assert_shows(capture, 200, 100, 1)
        for seed, (width, height) in enumerate([(300, 200), (130, 40), (151, 77)], start=1):
            rig.place(50, 90, width, height)
            rig.paint(seed)
            rig.assert_shows(capture, width, height, seed)

    def test_the_pointer_is_not_in_the_picture(self, rig):
        rig.paint(1)
        rig.point()
        rig.assert_shows(rig.open(), 200, 100, 1)

    def test_a_hidden_window_has_no_picture_until_it_is_shown_again(self, rig):
        rig.paint(1)
        capture = rig.open()
        rig.assert_shows(capture, 200, 100, 1)
        rig.hide()
        for _ in range(2):
            with pytest.raises(WindowGoneError):
                capture.grab(NATIVE)
        with pytest.raises(WindowGoneError):
            capture.size_px  # noqa: B018
        rig.show()
        rig.paint(2)
        rig.assert_shows(capture, 200, 100, 2)

    def test_a_closed_window_has_no_picture(self, rig):
        rig.paint(1)
        capture = rig.open()
        rig.assert_shows(capture, 200, 100, 1)
        rig.destroy()
        with pytest.raises(WindowGoneError, match="was closed"):
            capture.grab(NATIVE)

    def test_a_closed_capture_has_no_picture(self, rig):
        capture = rig.open()
        capture.close()
        capture.close()
        with pytest.raises(WindowGoneError, match="capture was closed"):
            capture.grab(NATIVE)

    def test_several_threads_take_pictures_of_one_window(self, rig):
        rig.paint(1)
        capture = rig.open()
        expected = rig.picture(200, 100, 1)
        wrong = []

        def grab():
            wrong.extend(i for i in range(50) if not np.array_equal(capture.grab(NATIVE), expected))

        with running([threading.Thread(target=grab) for _ in range(4)]):
            pass
        assert not wrong


@contextmanager
def running(threads):
    """Run threads to their end."""
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.join()
