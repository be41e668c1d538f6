"""The vocabulary of a duel, compared with the published facts (SoulsGym 1.1.0, MIT), copied manually."""

import pytest

from soulslab.arena import vocabulary as v
from soulslab.arena.boss_file import boss_names
from support.stage import shipped

FACTS = (
    "forward",
    "forward right",
    "right",
    "right backward",
    "backward",
    "backward left",
    "left",
    "left forward",
    "forward roll",
    "forward right roll",
    "right roll",
    "right backward roll",
    "backward roll",
    "backward left roll",
    "left roll",
    "left forward roll",
    "light_attack",
    "heavy_attack",
    "parry",
    "",
)
ATTACKS = "3000 3001 3002 3003 3004 3005 3006 3007 3008 3009 3010 3011 3012 3013 3014 3015 3029"
MOVEMENT = (
    "WalkFrontBattle WalkLeftBattle WalkRightBattle WalkBackBattle IdleBattle TurnBattle_Right90 TurnBattle_Right180 "
    "TurnBattle_Left90 TurnBattle_Left180 FallingDefault LandDefault"
)


def test_the_20_actions():
    assert tuple(" ".join(keys) for keys in v.ACTIONS) == FACTS
    assert (v.N_ACTIONS, v.N_DIRECTIONS) == (20, 8)


@pytest.mark.parametrize(
    ("number", "keys"),
    [
        (v.FIRST_ROLL, ("forward", "roll")),
        (v.LIGHT_ATTACK, ("light_attack",)),
        (v.HEAVY_ATTACK, ("heavy_attack",)),
        (v.PARRY, ("parry",)),
        (v.NOTHING, ()),
    ],
)
def test_named_actions(number, keys):
    assert v.ACTIONS[number] == keys


def test_names_of_actions_differ():
    names = [v.action_name(action) for action in range(v.N_ACTIONS)]
    assert len(set(names)) == 20
    assert (names[9], names[19]) == ("forward+right+roll", "nothing")


def test_the_boss_animations():
    assert (*(f"Attack{number}" for number in ATTACKS.split()), "ThrowAtk", "ThrowDef") == v.BOSS_ATTACKS
    assert tuple(MOVEMENT.split()) == v.BOSS_MOVEMENT
    assert v.BOSS_MISC == ("SABreak", "DamageParryEnemy1")
    assert v.BOSS_ANIMATIONS == v.BOSS_ATTACKS + v.BOSS_MOVEMENT + v.BOSS_MISC


def test_the_judge_has_the_published_animations_and_an_unknown_one():
    animations = [move.animation for move in shipped("judge").moves]
    assert sorted(animations) == sorted([*(f"Attack{number}" for number in ATTACKS.split()), "Attack1500"])
    assert "Attack1500" not in v.BOSS_ANIMATIONS


@pytest.mark.parametrize("boss", boss_names())
def test_every_boss_changes_its_phase_with_attack1500_at_half_health(boss):
    boss = shipped(boss)
    (change,) = [move for move in boss.moves if move.id == boss.phase_two.move]
    assert (change.animation, boss.phase_two.below) == ("Attack1500", 0.5)
    assert any(move.phases == (2,) for move in boss.moves)
