"""The ``tick`` command of the scan prompt, on Doom and on a program with a counter on the heap."""

from __future__ import annotations

import io
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from soulslab.envs.verification import VerifySettings, verify_game
from soulslab.errors import ProfileError, ScanError
from soulslab.games import profile_path
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.profile import ClockFacts, load_profile
from soulslab.siphon.scanner.prompt import run_prompt
from soulslab.siphon.scanner.reading import writable_regions
from soulslab.siphon.scanner.scanned_game import ScannedGame, new_profile
from soulslab.siphon.scanner.tick_search import TickSearch
from soulslab.siphon.scanner.workbench import Workbench
from soulslab.siphon.session import SessionOptions
from support.tick_program import compile_tick_program

DOOM = load_profile(profile_path(Path("doom")))


class Prompt:
    """A prompt on a game, and its output."""

    def __init__(self, game, file):
        self.out = io.StringIO()
        self.bench = Workbench(game, file, Console(file=self.out, width=200))

    def type(self, *lines):
        """Type lines and return what is printed."""
        self.out.seek(0)
        self.out.truncate()
        run_prompt(self.bench, lines, is_interactive=False)
        return self.out.getvalue()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_tick_program(tmp_path_factory.mktemp("tick"))


def values_of(game, profile):
    return AttributeTable(profile, game.memory, resolve_addresses(profile, game.memory, game.image))


def assert_counts_ticks(game, file, name):
    """Check that the attribute of a written profile grows by one in each tick."""
    profile = load_profile(file)
    values = values_of(game, profile)
    game.pause()
    before = values.read(name)
    for _ in range(20):
        game.step((), 1 / profile.clock.tick_hz)
    assert abs(values.read(name) - before - 20) <= 1  # the steps need not begin in the middle of a tick


def test_the_tick_counter_of_doom_is_found_without_a_hint(tmp_path):
    file = tmp_path / "doom.toml"
    unknown = msgspec.structs.replace(
        DOOM, bases={}, attributes={}, entities={}, env=None, clock=ClockFacts(grade="lockstep")
    )
    with ScannedGame(unknown, SessionOptions()) as game:
        prompt = Prompt(game, file)
        game.pause()
        game.step((), 2.0)
        said = prompt.type("tick")
        profile = load_profile(file)
        assert profile.clock.tick_hz == 35
        assert profile.clock.tick_attribute == "tick"
        assert profile.clock.boundary == "auto"
        assert "0 lost and 0 doubled" in said
        assert_counts_ticks(game, file, "tick")

        start, end = game.image.base, game.image.base + game.image.size
        data = [region for region in writable_regions(game.memory) if start <= region.start < end]
        found = TickSearch(game.memory, lambda seconds: game.step((), seconds)).find(data)
        game_tic = resolve_addresses(DOOM, game.memory, game.image).bases["game_tic"]
        assert game_tic in {counter.address for counter in found.counters}
        file.write_text(file.read_text().replace("grows by one in each tick", "found by hand"))
        with pytest.raises(ProfileError, match="has a value 'tick' already"):
            prompt.type("tick")


def test_a_counter_on_the_heap_is_found_and_proven_by_a_restart(program, tmp_path):
    file = tmp_path / "toy.toml"
    options = SessionOptions(with_window=False)
    with ScannedGame(new_profile(0, "", (str(program),), {}, ""), options) as game:
        prompt = Prompt(game, file)
        game.pause()
        said = prompt.type("tick count")
        assert "1 counter at 40 Hz" in said
        assert "pointer path" in said  # and it does not belong to the clock library
        assert load_profile(file).clock.tick_hz == 40
        assert_counts_ticks(game, file, "count")
        prompt.type("restart", "tick count")  # replaces the entry, whose path may be an accident
        assert prompt.bench.paths.n_restarts == 1
        assert game.is_paused
        profile = load_profile(file)
        assert profile.clock.tick_attribute == "count"
        assert list(profile.attributes) == ["count"]
        assert_counts_ticks(game, file, "count")


def test_a_game_in_real_time_is_refused(program, tmp_path):
    profile = new_profile(0, "", (str(program),), {}, "")
    in_real_time = msgspec.structs.replace(profile, clock=ClockFacts(grade="realtime"))
    with ScannedGame(in_real_time, SessionOptions(with_window=False)) as game:
        with pytest.raises(ScanError, match="held in lockstep"):
            Prompt(game, tmp_path / "toy.toml").type("tick")
        assert not (tmp_path / "toy.toml").exists()


def test_the_inputs_of_the_prompt_become_a_verified_environment(tmp_path):
    file = tmp_path / "doom.toml"
    unknown = msgspec.structs.replace(
        DOOM, bases={}, attributes={}, entities={}, env=None, keys={}, clock=ClockFacts(grade="lockstep")
    )
    with ScannedGame(unknown, SessionOptions()) as game:
        prompt = Prompt(game, file)
        prompt.type("pause", "restart", "wait 2", "tap ENTER ENTER", "tick")
        assert prompt.bench.is_exact_start
        prompt.type("replay", "env LEFT_ARROW UP_ARROW")
        assert prompt.bench.is_exact_start
        prompt.type("run")
        assert "time of the game ran" in prompt.type("env")
    profile = load_profile(file)
    assert profile.keys == {"left_arrow": "LEFT_ARROW", "up_arrow": "UP_ARROW", "enter": "ENTER"}
    assert profile.env["actions"] == {"left_arrow": ["left_arrow"], "up_arrow": ["up_arrow"]}
    assert profile.env["state"] == ["tick"]
    assert profile.env["reset"] == [
        {"restart": True},
        {"hold": [], "s": 2.0},
        {"tap": ["enter", "enter"], "s": 0.1},
    ]
    result = verify_game(profile, VerifySettings(n_episodes=2, n_steps=30))
    assert (result.n_lost, result.n_doubled, result.n_equal_steps, result.error) == (0, 0, 30, "")
