"""Settings that are paths."""

import pytest

from soulslab.learn.path_settings import absolute_paths, with_absolute_paths, without_folders
from soulslab.learn.rainbow.rainbow_settings import DemonstrationSettings, RainbowSettings
from soulslab.learn.settings import EnvSettings, RunSettings


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("doom", "judge", "run"):
        (tmp_path / name).mkdir()
    for name in ("key.pem", "my_game.toml"):
        (tmp_path / name).touch()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("boss", "judge"),  # a folder of that name is no boss
        ("boss", "generated:0-5"),
        ("boss", ""),
        ("profile", "doom"),
        ("profile", "nothing.toml"),
        ("profile", "zero\0"),
        ("boss", "zero\0.toml"),
        ("tls", 400 * "long"),
        ("map", 3),
        ("reward", "my_game.toml"),
        ("latency_ms", (0.0, 100.0)),
    ],
)
def test_names_and_other_options_stay(name, value):
    assert absolute_paths("env.options", {name: value}) == {name: value}
    assert absolute_paths(f"env.options.{name}", value) is value


def test_paths_become_absolute(tmp_path):
    options = {"boss": "bosses/my.toml", "profile": "my_game.toml", "folder": "run", "tls": ["key.pem", ""]}
    settings = RainbowSettings(
        env=EnvSettings(options=options),
        run=RunSettings(start_from="run"),
        demonstrations=DemonstrationSettings(path="fights/judge-v0"),
    )
    found = with_absolute_paths(settings)
    assert found.env.options == {
        "boss": str(tmp_path / "bosses" / "my.toml"),
        "profile": str(tmp_path / "my_game.toml"),
        "folder": str(tmp_path / "run"),
        "tls": [str(tmp_path / "key.pem"), ""],
    }
    assert found.run.start_from == str(tmp_path / "run")
    assert found.demonstrations.path == "fights/judge-v0"  # an id of Minari
    assert with_absolute_paths(found) == found
    assert without_folders("env.options", found.env.options) == without_folders("env.options", options)


def test_only_paths_are_compared_without_folders():
    assert without_folders("learner.teacher", "runs/one") == without_folders("learner.teacher", "/else/one")
    assert without_folders("env.options.reward", "a/b") == "a/b"
    assert without_folders("env.id", "soulslab/Arena-v0") == "soulslab/Arena-v0"
