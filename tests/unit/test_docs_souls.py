"""The pages of the real games: their tables, names, commands and files match the code."""

from __future__ import annotations

import ast
import re
import shlex
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

from soulslab import cli, doctor
from soulslab.envs.game.connect import ConnectOptions
from soulslab.envs.registration import SOULS_IDS
from soulslab.envs.tasks.duel.duel_options import DuelOptions, WindowOptions
from soulslab.envs.tasks.souls.souls_entrance import CharacterSettings
from soulslab.envs.tasks.souls.souls_env import DUEL_DEFAULTS, SoulsDuelEnv, SoulsOptions
from soulslab.errors import EnvironmentUsageError
from soulslab.games import profile_path
from soulslab.games.boss_facts import RECIPES, BossFacts, load_boss_facts
from soulslab.siphon.profile import load_profile

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GAMES = ("dark_souls_3", "elden_ring")


@pytest.fixture(scope="module")
def hooks():
    """Return the module that generates the tables of the pages."""
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        yield import_module("mkdocs_hooks")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


def page(name):
    return (DOCS / f"{name}.md").read_text(encoding="utf-8")


def rows(table):
    """Return the cells of a Markdown table's rows, without its header."""
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


def boss_file():
    """Return the complete fact file on the page about bosses."""
    (text,) = re.findall(r"```toml\n(.*?)```", page("bosses"), re.DOTALL)
    return text


def test_all_table_markers_are_replaced(hooks):
    markers = 0
    for file in DOCS.glob("*.md"):
        text = file.read_text(encoding="utf-8")
        markers += text.count("<!-- ")
        assert "<!-- " not in hooks.on_page_markdown(text), file
    assert markers > 20


def test_generated_tables_state_the_meaning_of_each_row(hooks):
    for file in DOCS.glob("*.md"):
        for kind, what in re.findall(
            r"^<!-- (settings|options): (\S+) -->$", file.read_text(encoding="utf-8"), re.MULTILINE
        ):
            table = getattr(hooks, f"{kind}_table")(what)
            assert all(row[-1] for row in rows(table)), (file.name, what)


def test_results_show_intervals_beside_their_values(hooks):
    built = hooks.on_page_markdown("<!-- results: demo -->")
    stored = msgspec.json.decode((DOCS / "results" / "demo.json").read_bytes())
    assert "from (%)" not in built
    for row in stored:
        won, low, high = (f"{row[name]:.3g}" for name in ("won (%)", "from (%)", "to (%)"))
        assert f"| {won} ({low} to {high}) |" in built


def test_results_show_equal_cells_of_a_wide_table_once(hooks, monkeypatch, tmp_path):
    numbers = {f"number {n}": 1 for n in range(10)}
    rows = [
        {"table": "wins", **numbers, "won (%)": won, "from (%)": 21.0, "to (%)": 100.0, "machine": {"cores": 2}}
        for won in (52.0, 64.0, None)
    ]
    (tmp_path / "wins.json").write_bytes(msgspec.json.encode(rows))
    monkeypatch.setattr(hooks, "RESULTS", tmp_path)
    assert hooks.on_page_markdown("<!-- results: wins -->") == "\n".join(
        [
            "*wins; " + "; ".join(f"{name} 1" for name in numbers) + "*",
            "",
            "| won (%) |",
            "| --- |",
            "| 52 (21 to 100) |",
            "| 64 (21 to 100) |",
            "| - |",
            "",
            "Measured on: cores 2.",
        ]
    )


@pytest.mark.parametrize("game", GAMES)
def test_key_table_matches_profile(hooks, game):
    assert f"<!-- keys: {game} -->" in page(game)
    documented = {name.replace(" ", "_"): key.strip("`") for name, key in rows(hooks.key_table(game))}
    assert documented == load_profile(profile_path(Path(game))).keys


@pytest.mark.parametrize("game", GAMES)
def test_game_page_lists_environments(hooks, game):
    built = hooks.on_page_markdown(page(game))
    assert "<!--" not in built
    ids = [env_id for env_id, kwargs in SOULS_IDS.items() if kwargs["game"] == game]
    assert ids
    assert all(f"`{env_id}`" in built for env_id in ids)


@pytest.mark.parametrize("game", GAMES)
def test_game_page_lists_versions(game):
    text = page(game)
    assert all(version in text or version.removesuffix(".0") in text for version in _versions(game))


def _versions(game):
    return load_profile(profile_path(Path(game))).process.versions


def test_elden_ring_page_lists_no_other_version():
    assert set(re.findall(r"\| (\d+\.\d+\.\d+\.\d+) \|", page("elden_ring"))) == set(_versions("elden_ring"))


@pytest.mark.parametrize("kind", [SoulsOptions, CharacterSettings, WindowOptions, ConnectOptions, DuelOptions])
def test_options_are_documented(kind):
    documented = set(re.findall(r"^ {8}(\w+): \S", kind.__doc__, re.MULTILINE))
    own = set(kind.__annotations__)
    assert own <= documented, own - documented
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.glob("*.md"))
    assert f"<!-- options: {kind.__module__}:{kind.__name__} -->\n" in pages


def test_page_states_each_other_default():
    stated = re.findall(r"`(\w+)=([^`]+)`", page("dark_souls_3").partition("\n## Options\n")[2])
    assert DUEL_DEFAULTS.items() <= {name: ast.literal_eval(value) for name, value in stated}.items()


def test_doctor_rows_match_checks():
    documented = set(re.findall(r"^\| `([\w ]*dark_souls_3[\w ]*)` \|", page("dark_souls_3"), re.MULTILINE))
    assert documented == {check.name for check in doctor.check_real_games() if "dark_souls_3" in check.name}


def test_boss_example_has_every_field(tmp_path):
    file = tmp_path / "my_boss.toml"
    file.write_text(boss_file(), encoding="utf-8")
    facts = load_boss_facts("elden_ring", file)
    assert facts.missing() == ()
    assert set(tomllib.loads(boss_file())) == set(BossFacts.__struct_fields__)
    for kind in ("poses", "arena", "animations", "phase_two"):
        assert set(tomllib.loads(boss_file())[kind]) == set(getattr(facts, kind).__struct_fields__)


def test_boss_example_marks_invented_facts():
    own = tomllib.loads((profile_path(Path("elden_ring")).parent / "bosses/godrick.toml").read_text(encoding="utf-8"))
    shown = tomllib.loads(boss_file().partition("\n\n")[0])
    assert shown == own
    assert "made up" in page("bosses").partition("```toml")[0]


def test_boss_example_creates_an_environment(tmp_path):
    file = tmp_path / "my_boss.toml"
    file.write_text(boss_file(), encoding="utf-8")
    env = SoulsDuelEnv("elden_ring", file)
    try:
        assert env.facts.name == "Godrick the Grafted"
    finally:
        env.close()
    profile = load_profile(profile_path(Path("elden_ring")))
    assert set(env.facts.encounter) <= set(profile.attributes)


def test_stand_in_refuses_boss_with_another_id(tmp_path):
    file = tmp_path / "my_boss.toml"
    file.write_text(boss_file(), encoding="utf-8")
    with pytest.raises(EnvironmentUsageError, match="has the id 10000800; fight it in the real game"):
        SoulsDuelEnv("elden_ring", file, stand_in=True)


def test_page_lists_every_recipe(hooks):
    built = hooks.on_page_markdown(page("bosses"))
    assert "<!--" not in built
    assert all(f"| `{fact}` | {how} |" in built for fact, how in RECIPES.items())


@pytest.mark.parametrize("fact", RECIPES)
def test_recipes_name_existing_commands(fact):
    for line in re.findall(r"\((soulslab [^)]*)\)", RECIPES[fact]):
        words = shlex.split(line.replace("GAME", "elden_ring").replace("FILE", "fight.h5"))
        cli.app.parse_args(words[1:], print_error=False, exit_on_error=False)
        attributes = load_profile(profile_path(Path("elden_ring"))).attributes
        assert {word for word in words if "." in word} - {"fight.h5"} <= set(attributes)
