import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import WindowGoneError
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.capture.pixels import convert
from soulslab.testing.fake_game import FakeCapture

SCREEN = np.random.default_rng(0).integers(0, 256, (120, 160, 4), dtype=np.uint8)


def reference(bgrx, frame_format):
    """Convert the whole RGB image with OpenCV, as a user would."""
    rgb = np.ascontiguousarray(bgrx[..., 2::-1])
    pixels = cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY) if frame_format.is_grey else rgb
    if not frame_format.width_px:
        return pixels
    size = (frame_format.width_px, frame_format.height_px)
    is_smaller = size[0] <= rgb.shape[1] and size[1] <= rgb.shape[0]
    return cv2.resize(pixels, size, interpolation=cv2.INTER_AREA if is_smaller else cv2.INTER_LINEAR)


@given(
    left=st.integers(0, 100),
    top=st.integers(0, 80),
    size=st.tuples(st.integers(1, 60), st.integers(1, 40)),
    wanted=st.tuples(st.integers(1, 90), st.integers(1, 90)) | st.just((0, 0)),
    is_grey=st.booleans(),
)
def test_a_part_of_a_screen_equals_the_conversion_by_opencv(left, top, size, wanted, is_grey):
    part = SCREEN[top : top + size[1], left : left + size[0]]
    frame_format = FrameFormat(*wanted, is_grey=is_grey)
    found = convert(part, frame_format)
    assert np.array_equal(found, reference(part, frame_format))
    assert found.dtype == np.uint8
    assert found.flags.c_contiguous


@pytest.mark.parametrize("frame_format", [NATIVE, FrameFormat(is_grey=True), FrameFormat(160, 120), FrameFormat(8, 8)])
def test_each_frame_is_a_new_array(frame_format):
    screen = SCREEN.copy()
    found = convert(screen, frame_format)
    before = found.copy()
    screen[:] = 0
    assert np.array_equal(found, before)
    assert found.flags.writeable


def test_the_fake_paints_and_resizes():
    picture = np.ascontiguousarray(SCREEN[..., 2::-1])
    capture = FakeCapture(lambda: picture, lambda: (160, 120))
    assert capture.size_px == (160, 120)
    assert np.array_equal(capture.grab(NATIVE), picture)
    assert np.array_equal(capture.grab(FrameFormat(84, 84, True)), reference(SCREEN, FrameFormat(84, 84, True)))
    capture.close()
    with pytest.raises(WindowGoneError, match="closed"):
        capture.grab(NATIVE)
