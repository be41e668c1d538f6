"""The memory layout for the comparison with EldenGym, which fits its profile and ours."""

from pathlib import Path

import pytest

from benchmarks.live_peer import MASK, mask_with_public_attributes
from soulslab.arena.window.memory.layout import synthesise
from soulslab.games import profile_path
from soulslab.siphon.profile import load_profile
from soulslab.siphon.profile.validation import find_mistakes

#: As EldenGym's: a place that our profile knows, one behind the same pattern that it does not, and one of its own.
PUBLIC = """
[process_info]
name = "eldenring.exe"
window_name = "ELDEN RING"

[attributes.HeroHp]
pattern = "48 8B 05 ?? ?? ?? ?? 48 85 C0 74 0F 48 39 88"
offsets = [0x10EF8, 0x0, 0x190, 0x0, 0x138]
type = "int"

[attributes.HeroFp]
pattern = "48 8B 05 ?? ?? ?? ?? 48 85 C0 74 0F 48 39 88"
offsets = [0x10EF8, 0x0, 0x190, 0x0, 0x148]
type = "int"

[attributes.gameSpeedFlag]
pattern = "48 8B 0D ?? ?? ?? ?? 80 BB ?? ?? ?? ?? 00 0F 84"
offsets = [0x2D0]
type = "bool"
"""


@pytest.fixture
def own():
    return load_profile(profile_path(Path(MASK)))


@pytest.fixture
def mask(tmp_path):
    file = tmp_path / "public.toml"
    file.write_text(PUBLIC)
    return mask_with_public_attributes(load_profile(file))


def test_missing_attributes_are_added_to_our_profile(own, mask):
    assert {name: mask.attributes[name] for name in own.attributes} == own.attributes
    assert {name: mask.bases[name] for name in own.bases} == own.bases
    added = {name: mask.attributes[name] for name in mask.attributes if name not in own.attributes}
    assert set(added) == {"public.gameSpeedFlag"}
    for fact in added.values():
        assert fact.base in mask.bases
    assert not list(find_mistakes(mask))


def test_memory_can_be_laid_out_for_both(own, mask):
    assert sum(synthesise(mask).sizes) >= sum(synthesise(own).sizes)
