import re
import shutil
from pathlib import Path

import soulslab
from soulslab import version
from soulslab.learn.archive import git_commit


def test_the_commit_of_a_checkout_is_returned():
    is_checkout = (Path(soulslab.__file__).parents[2] / ".git").exists() and shutil.which("git") is not None
    assert re.fullmatch(r"[0-9a-f]{40}\+?" if is_checkout else "", git_commit())


def test_an_installed_package_has_no_commit_of_another_repository(monkeypatch, tmp_path):
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(version, "__file__", str(tmp_path / "lib" / "soulslab" / "version.py"))
    assert git_commit() == ""
