"""Memories with the layout of a profile, and attribute tables that read them with the profile only."""

import numpy as np
import pytest

from soulslab.arena.window.memory.layout import synthesise
from soulslab.siphon.attributes.address_resolution import resolve_addresses
from soulslab.siphon.attributes.attribute_table import AttributeTable
from soulslab.siphon.process.image import read_image
from soulslab.siphon.profile import Attribute, Base, Process, Profile
from soulslab.testing.fake_memory import FakeMemory

STARTS = (0x140000000, 0x7F0000000000, 0x7E0000000000)
POINTER = {"displacement_at": 3, "instruction_end": 7, "is_pointer": True, "source": "test"}
WORLD = Base(pattern="48 8B 05 ?? ?? ?? ?? 48 85 C0", **POINTER)
LIST = {"base": "world", "begin": (0x100,), "end": (0x108,), "id_offsets": (8,), "source": "test"}


def number(offsets, base="world", kind="i32", bounds=(0, 100), **fields):
    start = {} if "entity" in fields else {"base": base}
    return Attribute(**start, offsets=tuple(offsets), type=kind, range=bounds, source="test", **fields)


def make(attributes, bases=None, entities=None, duel=None, code_offsets=None, **process):
    return Profile(
        name="test",
        process=Process(executable="test.exe", **process),
        code_offsets=code_offsets or {},
        bases=bases or {"world": WORLD},
        entities=entities or {},
        attributes=attributes,
        duel=duel,
    )


def lay_out(profile, truth=None):
    """Return the layout, and a memory with its contents."""
    layout = synthesise(profile, truth)
    memory = FakeMemory()
    for region, (start, size) in enumerate(zip(STARTS, layout.sizes, strict=True)):
        if size:
            data = memory.map(start, bytearray(size), path="/x/" + profile.process.executable if not region else "")
            for offset, part in layout.content(region, STARTS):
                data[offset : offset + len(part)] = part
    return layout, memory


def attach(profile, truth=None):
    """Return a table whose bases were resolved with the profile only."""
    layout, memory = lay_out(profile, truth)
    image = read_image(memory, profile.process.executable)
    return layout, memory, image, AttributeTable(profile, memory, resolve_addresses(profile, memory, image))


def check_same(found, wanted, context=""):
    if isinstance(wanted, list):
        np.testing.assert_allclose(found, wanted, rtol=1e-6, err_msg=context)
    elif isinstance(wanted, float):
        assert found == pytest.approx(wanted, rel=1e-6), context
    else:
        assert found == wanted, context
