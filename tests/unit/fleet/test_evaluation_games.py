"""Evaluation by games: each game contributes the same number of fights with one candidate."""

from types import SimpleNamespace

from msgspec.structs import replace

from soulslab.fleet.evaluation_games import Evaluation
from support.steps import result

GAMES = frozenset({"a", "b"})


def evaluation(n_fights=4):
    return Evaluation(SimpleNamespace(header=SimpleNamespace(env_steps=700)), n_fights)


def fight(each, number, *, is_won, candidate=None):
    return replace(result(number), is_won=is_won, candidate=candidate or each.candidate)


def test_each_game_contributes_its_first_fights():
    each = evaluation()
    for number in range(10):  # a game whose fights are short
        each.add("a", fight(each, number, is_won=number == 0))
    assert each.result(GAMES) is None
    assert each.n_done(GAMES) == 2
    each.add("b", fight(each, 1, is_won=True))
    assert each.result(GAMES) is None
    each.add("b", fight(each, 2, is_won=True))
    found = each.result(GAMES)
    assert (found.n_fights, found.win_rate, found.env_steps) == (4, 0.75, 700)
    assert found.low < 0.75 < found.high


def test_fights_of_other_candidates_and_of_failed_games_do_not_count():
    each = evaluation(1)
    each.add("a", fight(each, 1, is_won=True, candidate=each.candidate + 1))
    each.add("a", fight(each, 2, is_won=None))
    assert each.result({"a"}) is None
    each.add("a", fight(each, 3, is_won=False))
    assert each.result({"a"}).win_rate == 0.0


def test_a_game_that_leaves_does_not_stop_the_evaluation():
    each = evaluation()
    for number in range(2):
        each.add("a", fight(each, number, is_won=True))
    each.add("b", fight(each, 9, is_won=False))
    assert each.result(GAMES) is None
    for number in range(2):  # the other game plays the share of both
        each.add("a", fight(each, number, is_won=True))
    found = each.result({"a"})
    assert (found.n_fights, found.win_rate) == (4, 1.0)
    assert each.result(frozenset()) is None
