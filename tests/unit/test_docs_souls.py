"""The pages of the real games: their tables, names, commands and files are those of the code."""

from __future__ import annotations

import re
import shlex
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from soulslab import cli, doctor
from soulslab.envs.game.connect import ConnectOptions
from soulslab.envs.live.options import DuelOptions
from soulslab.envs.live.window_options import WindowOptions
from soulslab.envs.registration import SOULS_IDS
from soulslab.envs.souls.env import SoulsDuelEnv
from soulslab.envs.souls.options import SoulsOptions
from soulslab.errors import EnvironmentUsageError
from soulslab.games import profile_path
from soulslab.games.boss_facts import RECIPES, BossFacts, load_boss_facts
from soulslab.siphon.profile import load_profile

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GAMES = ("dark_souls_3", "elden_ring")


@pytest.fixture(scope="module")
def hooks():
    """What puts the tables into the pages."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield import_module("mkdocs_hooks")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def rows(table):
    """Return the cells of a Markdown table's rows, without its head."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def boss_file():
    """Return the whole file that the page on bosses shows."""
    (text,) = re.findall(r"```toml\n(.*?)```", page("bosses"), re.DOTALL)
    return text


def test_no_marker_of_a_table_is_left_over(hooks):
    markers = 0
    for file in DOCS.glob("*.md"):
        text = file.read_text(encoding="utf-8")
        markers += text.count("<!-- ")
        assert "<!-- " not in hooks.on_page_markdown(text), file
    assert markers > 20


@pytest.mark.parametrize("game", GAMES)
def test_the_keys_to_bind_are_those_of_the_profile(hooks, game):
    assert f"<!-- keys: {game} -->" in page(game)
    told = {name.replace(" ", "_"): key.strip("`") for name, key in rows(hooks.key_table(game))}
    assert told == load_profile(profile_path(Path(game))).keys


@pytest.mark.parametrize("game", GAMES)
def test_every_environment_of_a_game_is_on_its_page(hooks, game):
    built = hooks.on_page_markdown(page(game))
    assert "<!--" not in built
    ids = [env_id for env_id, kwargs in SOULS_IDS.items() if kwargs["game"] == game]
    assert ids
    assert all(f"`{env_id}`" in built for env_id in ids)


@pytest.mark.parametrize("game", GAMES)
def test_every_version_of_a_game_is_on_its_page(game):
    text = page(game)
    assert all(version in text or version.removesuffix(".0") in text for version in _versions(game))


def _versions(game):
    return load_profile(profile_path(Path(game))).process.versions


def test_no_other_version_of_elden_ring_is():
    assert set(re.findall(r"\| (\d+\.\d+\.\d+\.\d+) \|", page("elden_ring"))) == set(_versions("elden_ring"))


@pytest.mark.parametrize("kind", [SoulsOptions, WindowOptions, ConnectOptions, DuelOptions])
def test_every_option_is_documented(kind):
    told = set(re.findall(r"^ {8}(\w+): \S", kind.__doc__, re.MULTILINE))
    own = set(kind.__annotations__)
    assert own <= told, own - told
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    assert f"<!-- options: {kind.__module__}:{kind.__name__} -->\n" in pages


def test_the_rows_of_the_doctor_are_those_that_it_has():
    told = set(re.findall(r"^\| `([\w ]*dark_souls_3[\w ]*)` \|", page("dark_souls_3"), re.MULTILINE))
    assert told == {check.name for check in doctor.check_real_games() if "dark_souls_3" in check.name}


def test_the_file_of_a_boss_shows_every_field(tmp_path):
    file = tmp_path / "my_boss.toml"
    file.write_text(boss_file(), encoding="utf-8")
    facts = load_boss_facts("elden_ring", file)
    assert facts.missing() == ()
    assert set(tomllib.loads(boss_file())) == set(BossFacts.__struct_fields__)
    for kind in ("poses", "arena", "animations", "phase_two"):
        assert set(tomllib.loads(boss_file())[kind]) == set(getattr(facts, kind).__struct_fields__)


def test_what_it_has_beyond_the_shipped_file_is_told_to_be_made_up():
    own = tomllib.loads((profile_path(Path("elden_ring")).parent / "bosses/godrick.toml").read_text(encoding="utf-8"))
    shown = tomllib.loads(boss_file().partition("\n\n")[0])
    assert shown == own
    assert "made up" in page("bosses").partition("```toml")[0]


def test_it_makes_an_environment(tmp_path):
    file = tmp_path / "my_boss.toml"
    file.write_text(boss_file(), encoding="utf-8")
    env = SoulsDuelEnv("elden_ring", file)
    try:
        assert env.facts.name == "Godrick the Grafted"
    finally:
        env.close()
    profile = load_profile(profile_path(Path("elden_ring")))
    assert set(env.facts.encounter) <= set(profile.attributes)


def test_the_window_stands_in_for_no_boss_of_another_id(tmp_path):
    file = tmp_path / "my_boss.toml"
    file.write_text(boss_file(), encoding="utf-8")
    with pytest.raises(EnvironmentUsageError, match="has the id 10000800; it takes the game itself"):
        SoulsDuelEnv("elden_ring", file, stand_in=True)


def test_every_recipe_is_on_the_page(hooks):
    built = hooks.on_page_markdown(page("bosses"))
    assert "<!--" not in built
    assert all(f"| `{fact}` | {how} |" in built for fact, how in RECIPES.items())


@pytest.mark.parametrize("fact", RECIPES)
def test_every_recipe_names_commands_that_there_are(fact):
    for line in re.findall(r"\((soulslab [^)]*)\)", RECIPES[fact]):
        words = shlex.split(line.replace("GAME", "elden_ring").replace("FILE", "fight.h5"))
        cli.app.parse_args(words[1:], print_error=False, exit_on_error=False)
        attributes = load_profile(profile_path(Path("elden_ring"))).attributes
        assert {word for word in words if "." in word} - {"fight.h5"} <= set(attributes)
