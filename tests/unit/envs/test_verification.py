"""Verification of the toy game: its episodes, counts, comparisons and reports."""

import json
import math
import os
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from soulslab.envs.trace import Difference, PixelRegion
from soulslab.envs.verification import Verification, VerifySettings, WrongStep, draw_keys, verify_game
from soulslab.envs.verification_report import describe, failures_of, verification_rows, verification_table
from soulslab.errors import ProfileError
from soulslab.siphon.capture import NATIVE
from soulslab.testing.fake_session import FakeSession
from support.toy_env import Toys, toy_profile, toy_table

TICK_S = 1 / 60
SETTINGS = VerifySettings(n_episodes=3, n_steps=40)
RESET = [{"restart": True}]


@pytest.fixture(autouse=True)
def shorten_the_stand(monkeypatch):
    monkeypatch.setattr("soulslab.envs.traced_episode.PAUSE_S", 0.1)


@pytest.fixture
def said(caplog):
    caplog.set_level("WARNING", "soulslab")
    return caplog


def verify(change=lambda _toy, _number: None, settings=SETTINGS, profile=None, **table):
    """Verify the toy; `change` is called with the toy of each start and the number of its session, from 1."""
    profile = profile or toy_profile(reset=RESET, **table)
    toys = Toys(toy_table(reset=RESET, **table))

    def open_toy():
        session = toys()
        change(session.toy, len(toys.sessions))
        return session

    found = verify_game(profile, settings, open_toy)
    assert all(not session.toy.held for session in toys.sessions)
    return found, toys


def after_calls(toy, n_calls, act):
    """Call a function in place of the n-th advance of the toy."""
    pass_time, calls = toy.pass_time, []

    def passed(seconds):
        calls.append(seconds)
        act(seconds) if len(calls) == n_calls else pass_time(seconds)

    toy.pass_time = passed


def start_calls():
    """Return the number of advances in a start, before the first step."""
    calls = []

    def count(toy, number):
        pass_time = toy.pass_time
        if number == 1:
            toy.pass_time = lambda seconds: (calls.append(seconds), pass_time(seconds))

    verify(count, VerifySettings(n_episodes=2, n_steps=1))
    return len(calls) - 1


def test_a_deterministic_game_is_verified():
    found, toys = verify()
    # The episodes, one without keys, and one for each action.
    assert len(toys.sessions) == 3 + 1 + 5
    assert found.is_verified
    assert (found.grade, found.n_played, found.n_steps, found.n_counted) == ("lockstep", 3, 120, 120)
    assert (found.n_lost, found.n_doubled, found.first_wrong, found.motion, found.error) == (0, 0, None, "", "")
    assert (found.n_equal_steps, found.difference, found.different_episode) == (40, None, 0)
    assert found.times_real_time == pytest.approx(found.steps_per_s * TICK_S)
    assert failures_of(found) == []


@pytest.mark.parametrize("has_actions", [True, False])
def test_keys_without_an_effect_are_named(has_actions):
    table = {} if has_actions else {"actions": {"none": []}}
    profile = toy_profile(reset=RESET, **table)
    profile = msgspec.structs.replace(profile, keys={**profile.keys, "left": "F1"})
    found, _ = verify(profile=profile, **table)
    assert found.without_effect == {"left": ("F1",)}
    assert "no effect at the start of an episode: left (F1). If an action" in " ".join(shown([found]).split())
    assert found.is_verified  # an action may have an effect only later
    assert json.loads(json.dumps(verification_rows([found])))[0]["without_effect"] == {"left": ["F1"]}


def test_a_value_that_is_not_a_number_is_no_effect():
    profile = toy_profile(reset=RESET)
    x = msgspec.structs.replace(profile.attributes["x"], range=None)
    keys = {**profile.keys, "up": "F1"}
    profile = msgspec.structs.replace(profile, attributes={**profile.attributes, "x": x}, keys=keys)
    found, _ = verify(lambda toy, _: toy.values.update(x=math.nan), profile=profile)
    assert found.without_effect == {"up": ("F1",)}


def test_an_episode_with_keys_that_fails_is_no_failure(said):
    def change(toy, number):
        if number == 5:
            after_calls(toy, 3, lambda _: setattr(toy, "is_alive", False))

    found, _ = verify(change)
    assert (found.is_verified, found.without_effect, found.error) == (True, None, "")
    assert "the effects of its keys are not known: " in said.text


def test_keys_change_in_each_step_and_belong_to_the_actions():
    actions = [("W",), ("A", "SPACE"), ("W", "D")]
    held = draw_keys(actions, 500, seed=3)
    assert len(held) == 500
    assert held[0] != ()
    assert all(set(one) != set(two) for one, two in pairwise(held))
    assert {key for keys in held for key in keys} == {"W", "A", "SPACE", "D"}
    assert all(len(set(keys)) == len(keys) for keys in held)
    assert held == draw_keys(actions, 500, seed=3) != draw_keys(actions, 500, seed=4)
    assert draw_keys([("W",)], 4, seed=0) == [("W",), (), ("W",), ()]


@pytest.mark.parametrize(("n_more", "n_lost", "n_doubled", "n_ticks"), [(-1, 1, 0, 0), (1, 0, 1, 2)])
def test_a_lost_or_doubled_tick_is_named(n_more, n_lost, n_doubled, n_ticks):
    first = start_calls()

    def change(toy, number):
        pass_time = toy.pass_time
        if number == 2:
            after_calls(toy, first + 9, lambda seconds: pass_time(seconds + n_more * TICK_S))

    found, _ = verify(change)
    assert (found.n_lost, found.n_doubled) == (n_lost, n_doubled)
    assert (found.first_wrong.episode, found.first_wrong.step, found.first_wrong.n_ticks) == (2, 9, n_ticks)
    assert not found.is_verified
    assert f"step 9 of episode 2, with {n_ticks} ticks instead of 1 and" in failures_of(found)[0]
    # The tick counter is one of the values, and the toy draws it.
    assert (found.n_equal_steps, found.different_episode) == (8, 2)
    assert "ticks" in found.difference.values
    assert found.difference.region == PixelRegion(0, 0, *FakeSession().info.window_px, n_pixels=64 * 48)


def test_several_ticks_in_a_step():
    found, toys = verify(settings=VerifySettings(n_episodes=2, n_steps=10, step_ticks=3))
    assert found.is_verified
    assert toys.last.toy.values["ticks"] >= 30


@pytest.mark.parametrize(("hp", "n_counted", "n_lost"), [(0, 19, 0), (50, 20, 1)])
def test_ticks_of_a_step_in_which_the_episode_ends_early_are_not_lost(hp, n_counted, n_lost):
    first = start_calls()

    def change(toy, number):
        def end_early(seconds):
            pass_time(seconds - TICK_S)
            toy.values["hp"] = hp

        pass_time = toy.pass_time
        if number == 1:
            after_calls(toy, first + 4, end_early)

    settings = VerifySettings(n_episodes=2, n_steps=10, step_ticks=3)
    found, _ = verify(change, settings, end={"death": {"attribute": "hp", "at_most": 0}})
    assert (found.n_counted, found.n_lost) == (n_counted, n_lost)


def test_the_earliest_difference_of_all_episodes_is_reported():
    first = start_calls()

    def change(toy, number):
        def hurt(seconds):
            toy.values["level"] = number
            pass_time(seconds)

        pass_time = toy.pass_time
        if number > 1:
            after_calls(toy, first + {2: 30, 3: 12}[number], hurt)

    found, _ = verify(change)
    assert (found.n_equal_steps, found.different_episode) == (11, 3)
    assert found.without_effect is None
    assert found.difference.values == {"level": (1, 3)}
    assert "episode 3 differs from episode 1: step 12" in failures_of(found)[0]
    assert "attribute 'level' is 1 and 3" in failures_of(found)[0]


def test_waits_for_a_processor_are_measured():
    """Two busy processes compete for one processor with a step that computes until it has waited for 50 ms."""
    statistics = Path("/proc/thread-self/schedstat")

    def compute(_):
        first_ns = int(statistics.read_text().split()[1])
        while int(statistics.read_text().split()[1]) < first_ns + 50_000_000:
            pass

    calls_before = start_calls()
    processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(processors)})
    try:
        found, _ = verify(
            lambda toy, number: after_calls(toy, calls_before + 5, compute) if number == 2 else None,
            msgspec.structs.replace(SETTINGS, n_load=2),
        )
    finally:
        os.sched_setaffinity(0, processors)
    assert found.n_slow >= 1
    assert 0.05 <= found.slowest_waited_s <= found.slowest_s
    assert "for a processor that other programs used" in " ".join(shown([found]).split())


def test_the_reset_procedure_follows_an_end_of_the_episode():
    end = {"death": {"attribute": "hp", "at_most": 97}}
    found, toys = verify(end=end, settings=VerifySettings(n_episodes=2, n_steps=60))
    assert found.is_verified
    assert (found.n_resets >= 2, found.n_resets % 2, found.n_steps) == (True, 0, 120)
    # The reset procedure of the profile is a restart.
    assert [session._n_starts for session in toys.sessions[:2]] == [1 + found.n_resets // 2] * 2


def test_the_reset_procedure_follows_an_unreadable_tick_counter():
    first = start_calls()

    def change(toy, _):
        def lose(seconds):
            pass_time(seconds)
            toy.is_loading = True

        pass_time = toy.pass_time
        after_calls(toy, first + 7, lose)

    found, _ = verify(change, VerifySettings(n_episodes=2, n_steps=20))
    assert (found.n_resets, found.n_steps, found.n_counted) == (2, 40, 38)
    assert found.is_verified


def test_an_unreadable_attribute_is_not_a_failure():
    def change(toy, _):
        toy.values["level"] = 10**6  # outside its range

    found, _ = verify(change)
    assert found.is_verified


class MovingSession(FakeSession):
    """A session with a toy whose values or picture change while it is paused, after the first read."""

    moves = ""
    n_captures = 0

    def capture(self, frame_format=NATIVE):
        if self.moves == "values":
            self.toy.values["level"] += 1
        frame = super().capture(frame_format)
        if self.moves == "pixels":
            self.n_captures += 1
            frame.pixels[3, 4] = self.n_captures
        return frame


@pytest.mark.parametrize(
    ("moves", "words"), [("values", "attribute 'level' changed from 1 to 2"), ("pixels", "the picture changed")]
)
def test_a_game_that_changes_while_it_is_paused(moves, words):
    def open_toy():
        session = MovingSession(env=toy_table(reset=RESET))
        session.moves = moves
        return session

    found = verify_game(toy_profile(reset=RESET), SETTINGS, open_toy)
    assert words in found.motion
    assert not found.is_verified
    assert "it changes while it is paused" in failures_of(found)[0]


class RealtimeSession(FakeSession):
    """A session with the toy, with a realtime clock."""

    @property
    def info(self):
        return msgspec.structs.replace(super().info, clock_grade="realtime")


def test_a_clock_of_another_grade_ends_the_verification():
    sessions = []

    def open_toy():
        sessions.append(RealtimeSession())
        return sessions[-1]

    found = verify_game(toy_profile(reset=RESET), SETTINGS, open_toy)
    assert (found.grade, found.n_played, found.n_steps, len(sessions)) == ("realtime", 0, 0, 1)
    assert not found.is_verified
    assert "the clock is 'realtime' and not 'lockstep'" in failures_of(found)[0]


def test_a_game_that_ends_is_a_failure_and_complete_episodes_are_kept():
    first = start_calls()

    def change(toy, number):
        if number == 2:
            after_calls(toy, first + 5, lambda _: setattr(toy, "is_alive", False))

    found, _ = verify(change)
    assert (found.n_played, found.n_steps) == (1, 40)
    assert "has ended" in found.error
    assert "an episode could not be completed after 1 of 3 episodes" in failures_of(found)[0]


def test_an_end_condition_that_is_true_at_the_start_is_a_failure():
    found, _ = verify(end={"death": {"attribute": "hp", "at_most": 100}})
    assert "holds after env.reset" in found.error


def test_a_tick_counter_that_remains_unreadable_is_a_failure():
    def change(toy, _):
        toy.is_loading = True

    found, _ = verify(change)
    assert found.n_played == 0
    assert "attribute ticks to grow" in found.error


def test_without_a_tick_attribute_ticks_are_unknown():
    profile = toy_profile(reset=RESET)
    profile = msgspec.structs.replace(profile, clock=msgspec.structs.replace(profile.clock, tick_attribute=""))
    found, _ = verify(profile=profile)
    assert (found.n_counted, found.n_equal_steps) == (0, 40)
    assert not found.is_verified
    assert "clock.tick_attribute" in failures_of(found)[0]


def test_a_game_without_ticks_is_verified_by_equal_episodes():
    profile = toy_profile(reset=RESET)
    clock = msgspec.structs.replace(profile.clock, tick_attribute="", tick_hz=0.0)
    env = {**profile.env, "step_s": 0.25}
    del env["step_ticks"]
    found, _ = verify(profile=msgspec.structs.replace(profile, clock=clock, env=env))
    assert (found.step_s, found.n_counted, found.n_equal_steps, failures_of(found)) == (0.25, 0, 40, [])
    assert found.is_verified
    # On a busy machine, a note about waits follows the row.
    assert ["toy", "lockstep", "-", "-", "40"] in [line.split()[:5] for line in shown([found]).splitlines()]


def test_a_profile_without_an_env_table_plays_all_of_its_keys():
    profile = msgspec.structs.replace(toy_profile(), env=None)
    found, toys = verify(profile=profile)
    assert found.is_verified
    assert toys.last.toy.values["hp"] < 100  # the actions of the table do not use SPACE


def test_a_profile_without_keys_is_refused():
    profile = msgspec.structs.replace(toy_profile(), env=None, keys={})
    with pytest.raises(ProfileError, match="keys"):
        verify(profile=profile)


def test_traces_are_recorded_for_each_episode(tmp_path):
    settings = VerifySettings(n_episodes=2, n_steps=10, record_dir=tmp_path, name="toy")
    assert verify(settings=settings)[0].is_verified
    assert sorted(file.name for file in tmp_path.iterdir()) == ["toy-1.h5", "toy-2.h5"]


# --- the report ---------------------------------------------------------------------------------------------


def shown(found):
    console = Console(width=80)
    with console.capture() as capture:
        console.print(verification_table(found))
    return capture.get()


def test_the_table_has_a_row_for_each_game():
    verified, _ = verify()
    failed = Verification(game="A game with a long name", settings=SETTINGS, error="no process is called 'game'")
    fast = msgspec.structs.replace(verified, times_real_time=20.0, steps_per_s=600.0)
    slow = msgspec.structs.replace(verified, times_real_time=10.0, steps_per_s=300.0)
    text = shown([slow, fast, failed])
    lines = text.splitlines()
    assert lines[0] == "3 episodes of 40 steps of 1 tick, seed 0"
    assert lines[3].split()[:4] == ["game", "clock", "lost", "doubled"]
    assert lines[4].split()[:6] == ["toy", "lockstep", "0", "0", "40", "yes"]
    assert lines[4].split()[-1] == "yes"
    assert any(line.startswith("A game") and line.endswith("no") for line in lines)
    assert ["median", "450", "15.0", "0.0"] in [line.split() for line in lines]  # of the games that were played
    assert "an episode could not be completed: no process is called" in " ".join(lines)
    assert all(len(line) <= 80 for line in lines)


def test_rows_are_plain_values():
    wrong = WrongStep(episode=2, step=7, n_ticks=0, held=("W",))
    region = PixelRegion(1, 2, 3, 4, 5)
    difference = Difference(
        step=8, held=(("W",), ("W",)), values={"raw": (b"\1", None)}, has_other_frame=True, region=region
    )
    found = Verification(
        game="Toy", settings=SETTINGS, grade="lockstep", n_played=2, n_steps=80, n_counted=80, n_lost=1,
        first_wrong=wrong, difference=difference, different_episode=2,
    )  # fmt: skip
    (row,) = json.loads(msgspec.json.encode(verification_rows([found])))
    assert (row["game"], row["is_verified"], row["n_lost"]) == ("Toy", False, 1)
    assert row["settings"]["n_steps"] == 40
    assert row["first_wrong"] == {"episode": 2, "step": 7, "n_ticks": 0, "held": ["W"]}
    assert row["difference"]["values"] == {"raw": ["01", None]}
    assert row["difference"]["region"]["n_pixels"] == 5
    assert len(row["failures"]) == 2


def test_a_difference_as_text():
    pair = (("W", "A"), ("W", "A"))
    many = dict.fromkeys("abcdef", (1, None))
    region = PixelRegion(1, 2, 3, 4, 5)
    assert describe(Difference(step=3, held=pair, values={"x": (0.1, 0.1 + 2**-55)})) == (
        "step 3 (keys W A): attribute 'x' is 0.1 and 0.10000000000000003"
    )
    text = describe(Difference(step=3, held=((), ()), values=many, has_other_frame=True, region=region))
    assert text.startswith("step 3 (no keys): attribute 'a' is 1 and unreadable, ")
    assert text.endswith("2 more attributes differ, the picture differs in 5 pixels within 3 x 4 px at (1, 2)")
    problem = Difference(step=3, held=(("W",), ()), problem="the keys differ")
    assert describe(problem) == "step 3: the keys differ (keys W; no keys)"
