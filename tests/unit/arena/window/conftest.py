"""A picture to draw scenes into."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.offscreen import Offscreen


@pytest.fixture(scope="module")
def offscreen() -> Iterator[Offscreen]:
    screen = Offscreen(320, 180)
    yield screen
    screen.close()
