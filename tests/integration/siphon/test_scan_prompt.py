"""The scan prompt on a real program with known values: search, restart, and profile entry."""

from __future__ import annotations

import io
import os
from contextlib import ExitStack

import pytest
from rich.console import Console

from soulslab.errors import ConfigError, DisplayError, ProcessNotFoundError, ProfileError, ScanError, SiphonError
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.profile import load_profile
from soulslab.siphon.scanner.prompt import COMMANDS, run_prompt
from soulslab.siphon.scanner.scanned_game import ScannedGame, new_profile
from soulslab.siphon.scanner.workbench import Workbench
from soulslab.siphon.session import SessionOptions
from support.hoard import compile_hoard, running_hoard


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    # A unique name: other tests run the same program at the same time.
    program = compile_hoard(tmp_path_factory.mktemp("hoard"))
    return program.rename(program.with_name(f"scanned_{os.getpid()}"))


class Prompt:
    """A prompt on a game, and its output."""

    def __init__(self, game, file, answers=None):
        self.out = io.StringIO()
        ask = (lambda _: answers.pop(0)) if answers is not None else None
        self.bench = Workbench(game, file, Console(file=self.out, width=200), ask)

    def type(self, *lines, is_interactive=False):
        """Type lines; return the output."""
        self.out.seek(0)
        self.out.truncate()
        run_prompt(self.bench, lines, is_interactive=is_interactive)
        return self.out.getvalue()


@pytest.fixture
def hoard(program):
    with running_hoard(program) as hoard:
        yield hoard


@pytest.fixture
def game(hoard):
    options = SessionOptions(pid=hoard.process.pid, launch="never", with_window=False)
    with ScannedGame(new_profile(hoard.process.pid, "", (), {}, ""), options) as game:
        yield game


@pytest.fixture
def prompt(game, tmp_path):
    return Prompt(game, tmp_path / "hoard.toml")


def test_a_value_is_found_proven_by_a_restart_and_saved(program, tmp_path):
    file = tmp_path / "hoard.toml"
    with ExitStack() as second_run:
        with running_hoard(program, seed=1) as hoard:
            profile = new_profile(hoard.process.pid, "", (), {}, "My hoard")
            options = SessionOptions(pid=hoard.process.pid, launch="never", with_window=False)
            game = second_run.enter_context(ScannedGame(profile, options))
            prompt = Prompt(game, file)
            assert "4097 places" in prompt.type("= 31415")
            hoard.do("hurt", 15)
            assert f"{hoard.health:#x}" in prompt.type("-15")
            assert prompt.bench.search.n_candidates == 1
            said = prompt.type("path 1", "verify 31400")
            assert "has not been restarted" in said
            assert "-> +0x40 -> +0x18 -> +0x1c" in said
        with pytest.raises(ProcessNotFoundError, match="start it again"):
            prompt.type("verify 31415")
        hoard = second_run.enter_context(running_hoard(program, seed=2))
        hoard.do("hurt", 1)
        assert "held over 1 restart" in prompt.type("attach", "verify 31414")
        said = prompt.type("save health range=0..40000 unit=hp")
        assert "health = 31414" in said
        health = load_profile(file).attributes["health"]
        assert (health.type, health.range, health.unit) == ("i32", (0, 40000), "hp")
        assert "held over 1 restart" in health.source
        # A second value goes into the same file; it lies in the program itself.
        hoard.do("score", 9)
        assert "executable+" in prompt.type("= 777010", "path 1")
        assert "found by its offset" in prompt.type("save score range=0..1000000 by=offset")
    with running_hoard(program, seed=3) as third:
        saved = load_profile(file)
        assert saved.name == "My hoard"
        table = AttributeTable(saved, third.memory, resolve_addresses(saved, third.memory, third.image))
        assert table.read_many(None) == {"health": 31415, "score": 777001}


def test_a_candidate_is_tried_by_writing_to_it(prompt, hoard):
    # Without the ~ 0, half an address that looks like 12.5 would sometimes be a second place.
    prompt.type("type float", "= 12.5 ~ 0", f"write {hoard.stamina:#x} 3.25")
    assert "3.25" in prompt.type("list")
    hoard.do("stamina", 8)
    said = prompt.type("= 8 ~ 0", "undo", "list 3")
    assert "   8    12.5" in said.split("> list 3")[1]
    assert "1 place, type f32" in said


def test_text_is_found_and_saved(prompt, game, hoard):
    said = prompt.type("type text", "= Tarnished of no renown", "path 1", "save name length=32")
    assert "name = Tarnished of no renown" in said
    assert load_profile(prompt.bench.file).attributes["name"].length == 32


def test_missing_values_are_requested_from_an_interactive_user(game, hoard, tmp_path):
    prompt = Prompt(game, tmp_path / "asked.toml", answers=["0..1000000", "points"])
    prompt.type("= 777001", "path 1", "save score", is_interactive=True)
    score = load_profile(tmp_path / "asked.toml").attributes["score"]
    assert (score.range, score.unit) == ((0, 1000000), "points")


@pytest.mark.parametrize(
    ("lines", "error", "words"),
    [
        (["sve hp"], ConfigError, "did you mean 'save'"),
        (["= 5", "path 5000"], ConfigError, "is not a candidate"),
        (["path one"], ConfigError, "neither a candidate number"),
        (["write 0xZZ 1"], ConfigError, "is not an address"),
        (["type i31"], ConfigError, "did you mean"),
        (["type i32 3"], ScanError, "power of two"),
        (["undo"], ScanError, "no round can be undone"),
        (["paths"], ScanError, "no path was searched yet"),
        (["values"], ScanError, "save creates it"),
        (["verify 5"], ScanError, "no path was searched yet"),
        (["save hp range=0..1"], ScanError, "no path was searched yet"),
        (["path 0x10 9"], ConfigError, "depth is 1 to 7"),
        (["path 0x10"], ScanError, "no path leads"),
        (["wait"], ConfigError, "wait SECONDS"),
        (["wait -1"], ConfigError, "above 0"),
        (["list many"], ConfigError, "whole number"),
        (["attach me"], ConfigError, "not a process id"),
        (["'open"], ConfigError, "cannot be split"),
        (["changed"], ScanError, "begins with"),
        (["pause"], SiphonError, "realtime"),
        (["= 777001", "path 1", "save score"], ConfigError, "range=0..100"),
        (["= 777001", "path 1", "save score range=0"], ConfigError, "is not a range"),
        (["= 777001", "path 1", "save score range=5..6"], SiphonError, "outside its plausible range"),
        (["= 777001", "path 1", "save score range=9..6"], ProfileError, "range"),
        (["= 777001", "path 1", "save score range=0..9e6 path=2"], ConfigError, "is not a path"),
        (["= 777001", "path 1", "save score range=0..9e6 by=name"], ConfigError, "neither pattern"),
        (["= 777001", "path 1", "save score colour=red"], ConfigError, "unknown argument"),
        (["= 777001", "path 1", "verify 5"], ScanError, "none of 1 paths"),
        (["= 777001", "path 1", "verify up"], ConfigError, "not a known condition"),
        (["= 777001", "path 1", "verify ''"], ConfigError, "states no value"),
    ],
)
def test_the_first_mistake_stops_a_script_before_writing(prompt, lines, error, words):
    with pytest.raises(error, match=words):
        prompt.type(*lines)
    assert not prompt.bench.file.exists()


def test_the_prompt_continues_after_a_mistake(prompt):
    said = prompt.type("sve", "= 777001", "quit", "= 5", is_interactive=True)
    assert "did you mean 'save'" in said
    assert "1 place" in said
    assert prompt.bench.search.n_rounds == 1


def test_saved_values_are_shown_separately(prompt):
    prompt.type("= 777001", "path 1", "save score range=0..9e6", "save points range=0..9e6")
    text = prompt.bench.file.read_text()
    # A path that leads nowhere, in the second of them.
    head, name, entry = text.partition("[attributes.points]")
    prompt.bench.file.write_text(head + name + entry.replace("[0x0]", "[0x0, 0x0]"))
    said = prompt.type("values")
    assert "score = 777001" in said
    assert "points: process" in said


def test_an_existing_entry_is_kept(prompt):
    prompt.type("= 777001", "path 1", "save score range=0..9e6")
    text = prompt.bench.file.read_text()
    with pytest.raises(ProfileError, match="has a value 'score' already"):
        prompt.type("save score range=0..9e6")
    assert prompt.bench.file.read_text() == text


def test_help_names_every_command(prompt):
    said = prompt.type("help")
    assert all(command.usage in said for command in COMMANDS.values())


def test_a_program_without_a_window_takes_no_keys(prompt, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    with pytest.raises(DisplayError):
        prompt.type("tap SPACE")


def test_comments_and_empty_lines_are_passed_over(prompt):
    assert "place" not in prompt.type("# a comment", "", "  ")
