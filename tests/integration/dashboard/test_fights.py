"""The pages of recorded fights in a browser."""

from contextlib import closing
from pathlib import Path

import av
import gymnasium
import numpy as np
import pytest
from playwright.sync_api import expect

from soulslab.arena.duel_state import DUEL_STATE
from soulslab.arena.features import FEATURE_NAMES
from soulslab.arena.knight_file import load_knight
from soulslab.arena.vocabulary import N_ACTIONS
from soulslab.envs.registration import ARENA_ID
from soulslab.fights.recording import FightRecorder
from soulslab.learn.evaluated_fights import append_evaluated_fights
from soulslab.learn.run_folder import POLICY_NAME
from support.browser import check_widths
from support.fights import random_fight
from support.policies import actor_critic, q_policy
from support.run_folders import started, write_run

OPTIONS = {"boss": "judge", "phase": "1", "observation": "features"}


@pytest.fixture(scope="module")
def recorded(shelf):
    """A lost fight, the same fight as if a person had played it, and runs of both algorithms.

    The run of PPO was evaluated in this fight.
    """
    root, dashboard = shelf
    episode = random_fight(OPTIONS, 19)
    with FightRecorder(root / "set", ARENA_ID, OPTIONS, "dice") as recorder:
        recorder.add(episode)
    with FightRecorder(root / "person", ARENA_ID, OPTIONS, "human") as recorder:
        recorder.add(episode._replace(seed=None))
    settings = "[env.options]\n" + "".join(f"{name} = {value!r}\n" for name, value in OPTIONS.items())
    sizes = {"n_features": len(FEATURE_NAMES), "n_actions": N_ACTIONS, "feature_names": FEATURE_NAMES}
    for name, make in (("mine", actor_critic), ("values", q_policy)):
        write_run(root / name, [started()], settings=settings)
        make(env_id=ARENA_ID, env_options=OPTIONS, **sizes).save(root / name / POLICY_NAME)
    append_evaluated_fights(root / "mine", 4000, [episode])
    return dashboard, episode


def state_at(episode, step):
    """Return the state of the duel after some steps of a fight."""
    with closing(gymnasium.make(ARENA_ID, **OPTIONS)) as env:
        env.reset(seed=episode.seed)
        for action in episode.actions[:step].tolist():
            env.step(action)
        return np.frombuffer(env.unwrapped.scene(0)["state"], DUEL_STATE)[0]


def wait_for_replay(page):
    page.wait_for_function("window.soulslabLive?.endings.size === 1")


def test_recorded_fight_can_be_found_and_replayed(recorded, open_page):
    dashboard, episode = recorded
    page = open_page(dashboard.at("/fights"))
    page.locator("#content a", has_text="set").click()
    row = page.locator("tbody tr", has_text="Fight 0")
    expect(row).to_contain_text("lost")
    expect(row).to_contain_text(episode.killed_by.replace("_", " "))
    page.get_by_role("button", name="won").click()
    expect(row).to_have_count(0)
    page.get_by_role("button", name="lost").click()
    page.get_by_label("ended by").click()
    page.get_by_role("option", name=episode.killed_by.replace("_", " ")).click()
    expect(row).to_have_count(1)
    check_widths(page)
    page.get_by_role("link", name="Fight 0").click()
    wait_for_replay(page)
    assert page.evaluate("soulslabLive.moments.map(each => each.action)") == episode.actions.tolist()
    page.locator("#position").fill("7")
    page.wait_for_function("document.body.dataset.decision === '0:7'")
    check_widths(page)
    facts = dict(zip(*(page.locator(f"#facts {tag}").all_inner_texts() for tag in ("dt", "dd")), strict=True))
    state = state_at(episode, 7)
    names = list(load_knight().animations)
    player = f"{names[state['player_animation']]}, {state['player_animation_duration']:.1f} s"
    assert facts["Player"] == player
    assert facts["Boss"].endswith(f", {state['boss_animation_duration']:.1f} s")
    distance_m = 50.0 * episode.observations[7][FEATURE_NAMES.index("distance")]
    assert float(facts["Distance"].removesuffix(" m")) == pytest.approx(distance_m, abs=0.06)
    expect(page.locator("#health")).to_be_visible()
    expect(page.locator("#value")).to_be_hidden()
    # A click on the timeline goes to the decision under the pointer.
    box = page.locator("#timeline").bounding_box()
    page.locator("#timeline").click(position={"x": 38 + (box["width"] - 46) * 0.5, "y": 10})
    decision = page.evaluate("soulslabLive.moments[soulslabLive.head].decision")
    assert decision == pytest.approx((len(episode.actions) - 1) / 2, abs=2)
    expect(page.locator("#at")).to_contain_text(f"step {decision}: boss")
    with page.expect_download() as download:
        page.get_by_role("link", name="Save as video").click()
    assert download.value.suggested_filename == "set_0.mp4"
    with av.open(download.value.path()) as film:
        assert sum(1 for _ in film.decode(video=0)) == len(episode.actions)


def test_policy_is_asked_in_a_fight_without_a_seed(recorded, open_page):
    dashboard, episode = recorded
    page = open_page(dashboard.at("/replay/person?fight=0&policy=mine"))
    wait_for_replay(page)
    expect(page.get_by_role("link", name="Save as video")).to_have_count(0)
    assert page.evaluate("soulslabLive.moments.map(each => each.action)") == episode.actions.tolist()
    moment = page.evaluate("(({jpeg, ...rest}) => rest)(soulslabLive.moments[0])")
    assert sum(moment["scores"]) == pytest.approx(1.0, abs=0.01)
    assert moment["vitals"]["boss_hp"] == pytest.approx(100.0)
    expect(page.locator("#value")).to_be_visible()
    expect(page.locator("#notice")).to_have_text("This fight has no picture.")
    page.goto(f"{dashboard.base}/replay/set?fight=9")
    expect(page.locator("#notice")).to_contain_text("no fight 9")
    # Policies and fights are computed in another process, so that pages are answered meanwhile.
    assert "libtorch" not in Path(f"/proc/{dashboard.process.pid}/maps").read_text()


def test_values_and_quantiles_of_a_rainbow_policy_are_shown(recorded, open_page):
    dashboard, _ = recorded
    page = open_page(dashboard.at("/replay/person?fight=0&policy=values"))
    wait_for_replay(page)
    page.locator("#position").fill("7")
    page.wait_for_function("document.body.dataset.decision === '0:7'")
    moment = page.evaluate("(({jpeg, ...rest}) => rest)(soulslabLive.moments[7])")
    expect(page.locator("#scores-title")).to_have_text("Action values")
    shown = page.locator("#actions li output").all_inner_texts()
    assert [float(text) for text in shown] == pytest.approx(moment["scores"], abs=5.1e-4)
    allowed = sorted((score for score, is_open in zip(moment["scores"], moment["mask"], strict=True) if is_open))[::-1]
    means = [sum(each["values"]) / len(each["values"]) for each in moment["quantiles"]]
    assert means == pytest.approx(allowed[:3], rel=1e-2)
    expect(page.locator("#quantiles")).to_be_visible()
    check_widths(page)


def test_the_page_of_a_removed_fight_reports_it(recorded, shelf, open_page):
    (root, _), (dashboard, _) = shelf, recorded
    page = open_page(dashboard.at("/fights"))

    def remove_first(route):
        (root / "person").rename(root.parent / "person")
        route.continue_()

    page.route("**/live.js*", remove_first)
    page.goto(f"{dashboard.base}/replay/person?fight=0")
    expect(page.locator("#notice")).to_have_text("There are no such recorded fights any more.")
    (root.parent / "person").rename(root / "person")


def test_fight_of_an_evaluation_is_repeated(recorded, open_page):
    dashboard, episode = recorded
    page = open_page(dashboard.at("/run/mine"))
    page.get_by_role("link", name="Evaluated fights").click()
    row = page.locator("tbody tr", has_text="Fight 0")
    expect(row).to_contain_text("4,000")
    page.get_by_role("link", name="Fight 0").click()
    wait_for_replay(page)
    assert page.evaluate("soulslabLive.moments.map(each => each.action)") == episode.actions.tolist()
