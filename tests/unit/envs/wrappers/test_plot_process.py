"""The plot in a file that another program reads."""

import errno
import io
import json
from pathlib import Path

import pytest

from soulslab.envs.wrappers.plot_process import FileTarget, run


@pytest.fixture
def refuse(monkeypatch):
    """Let the system refuse the renames with these numbers, as Windows does while another program reads the file."""
    replace, renames = Path.replace, []

    def refuse(*numbers):
        def replace_or_refuse(source, target):
            renames.append(target)
            if len(renames) in numbers:
                raise PermissionError(errno.EACCES, "is used by another program")
            return replace(source, target)

        monkeypatch.setattr(Path, "replace", replace_or_refuse)
        return renames

    return refuse


def draw(path, n_messages):
    head = {"title": "fight", "actions": ["roll"], "n_steps": 5}
    rows = [{"rows": [[i, 1.0, 1.0, 0.0, 0.0, i == 0, [0]]]} for i in range(n_messages)]
    lines = io.StringIO("".join(json.dumps(message) + "\n" for message in (head, *rows)))
    output = io.StringIO()
    run(FileTarget(path, 1.0), lines, output)
    return output.getvalue()


def test_a_picture_that_another_program_reads_is_replaced_later(tmp_path, refuse):
    path = tmp_path / "fight.png"
    renames = refuse(2)
    target, pictures = FileTarget(path, 1.0), []
    for title in ("first", "second", "third"):
        target.figure.suptitle(title)
        target.show(title)
        pictures.append(path.read_bytes())
        assert list(tmp_path.iterdir()) == [path]
    assert pictures[0] == pictures[1] != pictures[2]
    assert len(renames) == 3


def test_the_plot_continues_after_a_refused_picture(tmp_path, refuse):
    refuse(2)
    assert draw(tmp_path / "fight.png", 1) == "ready\n"


def test_a_first_picture_that_is_refused_is_an_error(tmp_path, refuse):
    refuse(1)
    with pytest.raises(PermissionError, match="is used by another program"):
        draw(tmp_path / "fight.png", 1)
    assert list(tmp_path.iterdir()) == []
