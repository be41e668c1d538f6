"""The pages on adding a game and on Doom: examples are valid profiles, and transcripts and names match the code."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium
import pytest

from soulslab.envs.tasks.process.process_settings import (
    Condition,
    EnvSettings,
    ResetStep,
    RewardTerm,
    read_settings,
)
from soulslab.siphon.profile import load_profile
from soulslab.siphon.scanner.conditions import parse_condition
from soulslab.siphon.scanner.prompt import COMMANDS
from soulslab.siphon.scanner.workbench import TYPES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "add_your_own_game.md"
EXAMPLES = sorted((DOCS / "examples").glob("*.toml"))


def typed_lines():
    """Return the typed lines of the transcripts, without the notes beside them."""
    blocks = re.findall(r"```text\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    return [re.split(r" {2,}", line)[0] for block in blocks for line in block.splitlines()]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_profiles_with_an_environment(file):
    profile = load_profile(file)
    settings = read_settings(profile, str(file))
    assert settings.state
    assert f"| {file.stem} |" in (DOCS / "example_profiles.md").read_text(encoding="utf-8")


def test_scan_prompt_accepts_transcripts():
    lines = typed_lines()
    assert len(lines) > 30
    value_type = "i32"
    for line in lines:
        words = line.split()
        command = COMMANDS.get(words[0])
        if command is None:
            assert parse_condition(line, value_type) is not None, line
            continue
        least, most = command.n_arguments
        assert least <= len(words) - 1 <= most, line
        if command.name == "type":
            value_type = TYPES[words[1]]


@pytest.mark.parametrize("kind", [EnvSettings, RewardTerm, Condition, ResetStep])
def test_page_lists_the_settings_of_the_env_table(kind):
    assert f"<!-- settings: {kind.__module__}:{kind.__name__} -->\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("mode", ["discrete", "multi_binary", "multi_discrete"])
def test_doom_page_lists_actions_in_order(mode):
    (row,) = re.findall(
        rf'^\| `"{mode}"` \| `(.*?)`: (.*) \|$', (DOCS / "doom.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    env = gymnasium.make("soulslab/Doom-v0", action_mode=mode)
    names = [name.replace("_", " ").replace("|", " or ") for name in env.unwrapped.action_names]
    assert row[1].split(", ") == names
    assert row[0].replace(",", "") == str(env.action_space).replace(",", "")
    env.close()


def test_siphon_commands_exist():
    text = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"soulslab siphon (\w+)", text):
        assert name in {"scan", "watch", "serve", "attach", "read", "record", "capture", "write", "verify", "compare"}
