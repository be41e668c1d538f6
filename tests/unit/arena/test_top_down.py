"""The picture from above: equal states give equal pictures, and important events are visible."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import cv2
import numpy as np
import pytest

from soulslab.arena.blow import blow_of
from soulslab.arena.boss_file import boss_names, load_boss
from soulslab.arena.duel_rules import replay_ticks
from soulslab.arena.knight_file import load_knight
from soulslab.arena.picture.canvas import Canvas, Pose, disc, points
from soulslab.arena.picture.ground_texture import N_TORCHES, PX_PER_M, Place, texture, torches
from soulslab.arena.picture.looks import look_of
from soulslab.arena.records import TICKS_PER_DECISION
from soulslab.arena.simulator import FightOptions, Simulator
from soulslab.arena.top_down import TICKS_PER_FRAME, draw_duel, draw_step
from soulslab.arena.vocabulary import FIRST_ROLL, LIGHT_ATTACK, NOTHING, PARRY

EVERYONE = np.ones(1, np.bool_)


def fight_against(boss, *, seed=1, **options):
    simulator = Simulator(
        load_boss(boss, list(load_knight().knock_backs)), 1, FightOptions(autoreset="disabled", **options)
    )
    simulator.seed(np.array([seed], np.uint64), EVERYONE)
    simulator.reset(EVERYONE)
    return simulator


def step(simulator, action):
    simulator.step(np.array([action]))


def draw(simulator, **options):
    return draw_duel(simulator.boss, simulator.fight[0], simulator.duels[0], **options)


def difference(first, second):
    """Return the share of pixels that are clearly different."""
    return float((np.abs(first.astype(int) - second).max(axis=2) > 24).mean())


# --- pictures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("height_px", [540, 241, 90])
def test_size_and_type(height_px):
    picture = draw(fight_against("judge"), height_px=height_px)
    height, width, channels = picture.shape
    assert height % 2 == width % 2 == 0
    assert abs(height - height_px) <= 1
    assert width / height == pytest.approx(16 / 9, rel=0.02)
    assert (channels, picture.dtype) == (3, np.uint8)


def test_equal_states_give_equal_pictures_and_drawing_changes_nothing():
    first, second = fight_against("judge"), fight_against("judge")
    for action in (0, 0, LIGHT_ATTACK, NOTHING):
        step(first, action)
        step(second, action)
    before = first.duels.tobytes()
    np.testing.assert_array_equal(draw(first), draw(second))
    np.testing.assert_array_equal(draw(first), draw(first))
    assert first.duels.tobytes() == before


@pytest.mark.parametrize("boss", boss_names())
@pytest.mark.parametrize("phase", ["full", "2"])
def test_whole_fights_can_be_drawn(boss, phase):
    simulator = fight_against(boss, phase=phase, random_pose=True, seed=5)
    rng = np.random.default_rng(5)
    seen = set()
    while not simulator.duels["over"][0]:
        step(simulator, int(rng.choice(np.flatnonzero(simulator.masks[0]))))
        duel = simulator.duels[0]
        blow = blow_of(duel, simulator.fight[0])
        kind = (int(duel.b_mode), int(duel.p_anim), blow.stage if blow else None, int((duel.q_ticks > 0).sum()))
        if kind not in seen or duel.over:  # all that looks different once; whole fights would take a minute
            seen.add(kind)
            assert draw(simulator, height_px=120).any()
    assert len(seen) > 10


def test_a_fall_from_the_cliff_can_be_drawn():
    simulator = fight_against("judge")
    duel, fight = simulator.duels[0], simulator.fight[0]
    duel.p_x = fight.centre_x + fight.cliff_x * (fight.radius + 0.1)
    duel.p_y = fight.centre_y + fight.cliff_y * (fight.radius + 0.1)
    pictures = []
    while not duel.over:
        step(simulator, NOTHING)
        pictures.append(draw(simulator, height_px=180))
    assert duel.p_falling
    assert difference(pictures[1], pictures[-2]) > 0.001


def wind_up(simulator):
    while (blow := blow_of(simulator.duels[0], simulator.fight[0])) is None or blow.stage != "wind-up":
        step(simulator, NOTHING)
    return blow


def test_a_blow_is_seen_coming_where_it_will_hurt_and_flashes():
    simulator = fight_against("judge", seed=4)
    duel, fight = simulator.duels[0], simulator.fight[0]
    duel.b_mode, duel.b_move, duel.b_ticks, duel.b_window = 1, 7, 2, 0  # spin_behind: all around
    early = draw(simulator, has_hud=False)
    while (blow := blow_of(duel, fight)).stage == "wind-up":
        late, share = draw(simulator, has_hud=False), blow.share
        step(simulator, NOTHING)
    assert share > 0.7
    assert late.astype(int)[..., 0].mean() > early.astype(int)[..., 0].mean() + 1
    flash = draw(simulator, has_hud=False)
    assert flash.mean() > late.mean() + 2


@pytest.mark.parametrize("action", [FIRST_ROLL + 2, LIGHT_ATTACK, PARRY])
def test_actions_of_the_player_are_visible(action):
    idle, busy = fight_against("judge"), fight_against("judge")
    for _ in range(3):
        step(idle, NOTHING)
        step(busy, action)
    busy.duels["p_x"], busy.duels["p_y"] = idle.duels["p_x"], idle.duels["p_y"]
    assert difference(draw(idle, has_hud=False), draw(busy, has_hud=False)) > 0.0005


def test_the_bars_show_health_and_stamina():
    full, hurt = fight_against("judge"), fight_against("judge")
    hurt.duels["p_hp"] *= 0.3
    hurt.duels["p_sp"] *= 0.3
    hurt.duels["b_hp"] *= 0.3
    first, second = draw(full), draw(hurt)
    for rows, columns in (
        (slice(22, 33), slice(26, 262)),
        (slice(40, 48), slice(26, 178)),
        (slice(504, 515), slice(173, 787)),
    ):
        assert difference(first[rows, columns], second[rows, columns]) == pytest.approx(0.7, abs=0.06)
    np.testing.assert_array_equal(draw(full, has_hud=False)[240:300], first[240:300])


@pytest.mark.parametrize(("won", "dominant"), [(1, 1), (0, 0)])
def test_the_text_at_the_end_is_gold_or_red(won, dominant):
    simulator = fight_against("judge")
    simulator.duels["over"], simulator.duels["won"] = 1, won
    band = draw(simulator)[345:454].astype(int)
    bright = band[band.max(axis=2) > 140]
    assert len(bright) > 500
    red, green, _ = bright.mean(axis=0)
    assert (green > 0.7 * red) == (dominant == 1)


def test_each_boss_has_a_different_appearance():
    looks = {boss: look_of(load_boss(boss, list(load_knight().knock_backs))).body for boss in boss_names()}
    assert looks == {"judge": "halberd", "frost_beast": "beast", "trickster": "daggers"}


def test_x_is_right_and_y_is_up():
    image = np.zeros((100, 100, 3), np.uint8)
    canvas = Canvas(image, (5.0, 5.0), (50.0, 50.0), 10.0)
    canvas.fill(disc(8.0, 7.0, 0.5), (255, 0, 0))
    rows, columns = np.nonzero(image[..., 0])
    assert (rows.mean(), columns.mean()) == pytest.approx((30, 80), abs=1)


def test_shapes_beside_the_picture_are_left_out():
    image = np.zeros((10, 10, 3), np.uint8)
    canvas = Canvas(image, (0.0, 0.0), (5.0, 5.0), 1.0)
    canvas.fill(disc(100.0, 100.0, 3.0), (255, 255, 255))
    canvas.line(points((-100.0, 50.0), (100.0, 50.0)), (255, 255, 255), 0.1, 0.5)
    assert not image.any()


def test_a_part_of_a_figure_is_placed_and_turned_to_the_left():
    figure = Pose(10.0, 20.0, 0.0, 1.0, 2.0)  # faces up, so left is -x
    np.testing.assert_allclose(figure.place(points((1.0, 0.0), (0.0, 1.0))), [[10, 22], [8, 20]])
    part = figure.at(1.0, 0.0, np.pi / 2)
    np.testing.assert_allclose((part.x, part.y, part.fx, part.fy), (10, 22, -1, 0), atol=1e-12)


# --- the ticks in between -----------------------------------------------------------------------------------

COUNTED_BY_THE_STEP = {"decision", "over", "won", "truncated", "n_rolls", "n_attacks", "streak_gain"}
COUNTED_BY_THE_STEP |= {"s_masked", "s_rolls", "s_attacks", "s_return"}
COUNTED_BY_THE_STEP |= {"s_decisions_by_phase", "s_actions_by_situation"}


@pytest.mark.parametrize("skip_locked", [False, True])
@pytest.mark.parametrize("boss", boss_names())
def test_a_replay_ends_exactly_where_the_step_did(boss, skip_locked):
    simulator = fight_against(boss, skip_locked=skip_locked, random_pose=True)
    rng = np.random.default_rng(0)
    fields = [name for name in simulator.duels.dtype.names if name not in COUNTED_BY_THE_STEP]
    n_long = 0
    for _ in range(200):
        before = simulator.duels.copy()
        action = int(rng.integers(20))  # masked ones too
        step(simulator, action)
        n_ticks = int(simulator.duels["tick"][0] - before["tick"][0])
        n_long += n_ticks > TICKS_PER_DECISION
        ticks = replay_ticks(before, simulator.fight[0], action, n_ticks)
        assert ticks["tick"].tolist() == list(range(before["tick"][0] - n_ticks + 1, before["tick"][0] + 1))
        for name in fields:
            expected = simulator.duels[name].tobytes()
            assert before[name].tobytes() == expected, name
            assert ticks[name][-1:].tobytes() == expected, name
        if simulator.duels["over"][0]:
            simulator.reset(EVERYONE)
    assert (n_long > 0) == skip_locked


def test_a_step_is_filmed_at_thirty_frames_a_second():
    simulator = fight_against("judge")
    step(simulator, 0)
    before = simulator.duels.copy()
    first = draw(simulator)
    step(simulator, 0)
    film = draw_step(simulator.boss, simulator.fight[0], before, simulator.duels[0], 0)
    assert len(film) == TICKS_PER_DECISION / TICKS_PER_FRAME == 3
    np.testing.assert_array_equal(film[-1], draw(simulator))
    assert len({first.tobytes(), *(picture.tobytes() for picture in film)}) == 4


def test_pictures_survive_a_png():
    picture = draw(fight_against("frost_beast"), height_px=180)
    ok, png = cv2.imencode(".png", picture[..., ::-1])
    assert ok
    np.testing.assert_array_equal(cv2.imdecode(png, cv2.IMREAD_COLOR)[..., ::-1], picture)


def test_the_wall_is_lit_at_each_torch():
    place = Place(10.0, 0.7, 2.0, (1.0, 1.0, 1.0))
    ground = texture(place)

    def brightness(x_m, y_m):
        column, row = (round(len(ground) / 2 + PX_PER_M * offset_m) for offset_m in (x_m, -y_m))
        return ground[row, column, :3].astype(int)

    positions = torches(place)
    for (x, y), (next_x, next_y) in pairwise(positions):
        red, green, blue = brightness(x, y)
        assert red > green > blue
        assert red > brightness((x + next_x) / 2, (y + next_y) / 2)[0] + 100
    assert len(positions) == N_TORCHES


def test_threads_that_need_the_same_ground_paint_it_once():
    place = Place(radius_m=3.0, cliff_rad=1.0, cliff_width_rad=0.5, tint=(1.0, 0.9, 0.8))
    with ThreadPoolExecutor(4) as threads:
        painted = list(threads.map(texture, [place] * 4))
    assert all(one is painted[0] for one in painted)
    assert not painted[0].flags.writeable
    assert painted[0][..., :3].std() > 5
