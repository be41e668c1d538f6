"""The knight's file, compared with the published facts (SoulsGym 1.1.0, MIT), copied manually."""

import pytest

from soulslab.arena import knight_file as module
from soulslab.arena.knight_file import load_knight
from soulslab.errors import ConfigError

# Animation, then attack, roll and move lock in seconds, in the order of the facts.
LOCKS = (
    ("AddDamageDefault", 0.5, 0.5, 0.5),
    ("AddDamageStartLeft", 0.5, 0.5, 0.5),
    ("AddDamageStartRight", 0.5, 0.5, 0.5),
    ("AddDamageStartFront", 0.5, 0.5, 0.5),
    ("AddDamageStartBack", 0.5, 0.5, 0.5),
    ("GuardBreakWall", 0.54, 0.54, 0.57),
    ("DamageSmall", 0.35, 0.35, 0.52),
    ("DamageMiddle", 0.85, 0.85, 0.97),
    ("DamageUpper", 2.85, 2.19, 2.92),
    ("DamageLarge", 1.02, 1.18, 1.25),
    ("DamageExLarge", 3.6, 1.92, 3.72),
    ("DamageFling", 1.01, 1.01, 1.01),
    ("DamagePush", 1.02, 1.02, 1.27),
    ("DamageSmallBlow", 3.1, 1.67, 3.19),
    ("ThrowAtk", 4.34, 4.25, 4.37),
    ("ThrowDef", 8.22, 6.91, 8.3),
    ("EStepDown", 0.69, 0.59, 0.87),
    ("Idle", 0.0, 0.0, 0.0),
    ("Move", 0.0, 0.0, 0.0),
    ("None", 0.0, 0.0, 0.0),
    ("BackStepNomal", 0.41, 0.63, 0.67),
    ("RollingMedium", 0.69, 0.73, 0.75),
    ("RollingMediumSelftra", 0.7, 0.73, 0.75),
    ("RunStopFront", 0.0, 0.0, 0.0),
    ("RunStopBack", 0.0, 0.0, 0.0),
    ("RunStopLeft", 0.0, 0.0, 0.0),
    ("RunStopRight", 0.0, 0.0, 0.0),
    ("QuickTurnLeft180", 0.1, 0.2, 0.2),
    ("QuickTurnRight180", 0.1, 0.2, 0.2),
    ("AttackRightLight1", 0.63, 0.8, 1.03),
    ("AttackRightLight2", 0.63, 0.77, 1.03),
    ("AttackRightLight3", 0.53, 0.8, 1.13),
    ("AttackRightLightStep", 0.73, 0.8, 0.9),
    ("AttackRightHeavy1Sta", 1.0, 1.0, 1.0),
    ("AttackRightHeavy1Sub", 0.1, 0.1, 0.1),
    ("AttackRightHeavy1End", 0.53, 0.7, 0.89),
    ("AttackRightHeavy2Sta", 1.0, 1.0, 1.0),
    ("AttackRightHeavy2End", 0.75, 0.76, 0.9),
    ("ParryLeftStart", 0.8, 0.9, 0.93),
    ("LandLow", 0.0, 0.0, 0.0),
    ("Land", 0.0, 0.0, 0.0),
    ("LandFaceUp", 25.0, 25.0, 25.0),
    ("LandFaceDown", 25.0, 25.0, 25.0),
    ("FallStart", 0.0, 0.0, 0.0),
    ("FallStartFaceUp", 0.0, 0.0, 0.0),
    ("FallStartFaceDown", 0.0, 0.0, 0.0),
    ("FallLoop", 0.0, 0.0, 0.0),
    ("FallLoopFaceUp", 0.0, 0.0, 0.0),
    ("FallLoopFaceDown", 0.0, 0.0, 0.0),
    ("FallAttackStart", 0.0, 0.0, 0.0),
)


def test_there_are_50_animations_in_the_order_of_the_facts():
    assert load_knight().animations == tuple(name for name, *_ in LOCKS)
    assert len(LOCKS) == 50


@pytest.mark.parametrize(("name", "attack_s", "roll_s", "move_s"), LOCKS, ids=[lock[0] for lock in LOCKS])
def test_lock_times(name, attack_s, roll_s, move_s):
    assert load_knight().locks_s[name] == (attack_s, roll_s, move_s)


def test_vitals():
    vitals = load_knight().vitals
    assert (vitals.hp, vitals.sp) == (454, 95)


def test_the_roll_protects_for_about_430_ms_of_its_730():
    knight = load_knight()
    start, end = knight.roll.invulnerable_s
    assert end - start == pytest.approx(0.43)
    assert knight.locks_s[knight.roll.animation][1] == 0.73


def test_knock_backs_get_up_by_roll_before_anything_else():
    knight = load_knight()
    for name in ("down", "launch", "slam"):
        attack_s, roll_s, move_s = knight.locks_s[knight.knock_backs[name].animation]
        assert roll_s < min(attack_s, move_s)


def test_an_unknown_animation_is_named():
    with pytest.raises(ConfigError, match="unknown animation 'Moonwalk'") as error:
        load_knight().number("Moonwalk")
    assert error.value.source.endswith("knight.toml")


@pytest.mark.parametrize("text", ["[vitals", "", "[vitals]\nhp = 'much'"])
def test_a_broken_file_is_an_error_with_its_name(text, tmp_path, monkeypatch):
    file = tmp_path / "knight.toml"
    file.write_text(text)
    monkeypatch.setattr(module, "KNIGHT_FILE", file)
    with pytest.raises(ConfigError, match=r"knight\.toml"):
        load_knight.__wrapped__()
