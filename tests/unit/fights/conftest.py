"""Register the toy environments for the tests of recordings."""

from __future__ import annotations

import pytest

from support.pixel_toys import register_pixel_toys
from support.toys import register_toys


@pytest.fixture(scope="session", autouse=True)
def toys():
    register_toys()
    register_pixel_toys()
