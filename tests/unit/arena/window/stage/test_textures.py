"""The cache of painted textures."""

import numpy as np
import pytest

from soulslab.arena.window.stage.textures import cached_picture


@pytest.fixture
def paint(tmp_path, monkeypatch):
    """Return a function that makes a painter as in a new process, and the list of painted sizes."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    painted = []

    def checks(size):
        painted.append(size)
        return (np.indices((size, size, 3)).sum(0) % 2).astype(np.uint8)

    return lambda: cached_picture(checks), painted


def test_another_process_reads_the_picture(paint):
    new_painter, painted = paint
    first = new_painter()
    pictures = [first(4), first(4), new_painter()(4)]
    assert painted == [4]
    assert all((picture == pictures[0]).all() and not picture.flags.writeable for picture in pictures)
    assert new_painter()(5).shape == (5, 5, 3)
    assert painted == [4, 5]


def test_a_damaged_file_is_written_again(paint, tmp_path):
    new_painter, painted = paint
    new_painter()(4)
    (file,) = (tmp_path / "soulslab" / "pictures").iterdir()
    for content in (b"", file.read_bytes()[:-1], b"PK\3\4"):
        file.write_bytes(content)
        assert new_painter()(4).sum() == 24
    assert painted == [4] * 4
    assert new_painter()(4).sum() == 24
    assert painted == [4] * 4


def test_where_nothing_can_be_written_each_process_paints(paint, tmp_path):
    new_painter, painted = paint
    (tmp_path / "soulslab").touch()
    assert [new_painter()(4).sum() for _ in range(2)] == [24, 24]
    assert painted == [4, 4]
