import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulslab.errors import MemoryAccessError
from soulslab.siphon.attributes.read_plan import PackedRead
from soulslab.siphon.memory import PAGE_BYTES as PAGE
from soulslab.testing.fake_memory import FakeMemory

START = 0x10_0000
N_PAGES = 8


def memory_with(pages: list[int]) -> FakeMemory:
    memory = FakeMemory()
    for page in pages:
        memory.map(START + page * PAGE, bytearray(np.random.default_rng(page).bytes(PAGE)))
    return memory


@st.composite
def parts(draw: st.DrawFn) -> list[tuple[int, int, int]]:
    """Return address, size and group of parts on mapped pages; all other pages are unmapped."""
    found = []
    for group in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(0, 8))):
            at, size = draw(st.integers(0, PAGE - 1)), draw(st.integers(1, 40))
            page = draw(st.sampled_from((0, 2, 3, 4, 6)))
            found.append((START + page * PAGE + min(at, PAGE - size), size, group))
    return found


@given(parts())
def test_reads_equal_those_of_the_parts_and_use_no_other_page(wanted: list[tuple[int, int, int]]):
    pages = sorted({(address - START) // PAGE for address, _, _ in wanted})
    memory = memory_with(pages)
    addresses, sizes, groups = (
        (np.array(column, np.int64) for column in zip(*wanted, strict=True)) if wanted else [np.zeros(0, np.int64)] * 3
    )
    packed = PackedRead(memory, addresses.astype(np.uint64), sizes, groups)
    expected = b"".join(memory.read(address, size) for address, size, _ in wanted)
    assert bytes(packed.read()) == expected
    assert packed.n_spans <= len(wanted)
    for page in pages:
        memory.write(START + page * PAGE, bytes(64))
    assert bytes(packed.read()) == b"".join(memory.read(address, size) for address, size, _ in wanted)


def test_neighbours_are_read_together_and_groups_separately():
    memory = memory_with([0, 1])
    addresses = np.array([START + 5000, START, START + 16, START + 8], np.uint64)
    sizes = np.array([4, 8, 8, 8])
    assert PackedRead(memory, addresses, sizes, np.array([0, 0, 0, 0])).n_spans == 1
    assert PackedRead(memory, addresses, sizes, np.array([0, 1, 1, 2])).n_spans == 3


def test_the_first_group_is_read_first():
    order = []

    class Watched(FakeMemory):
        def _read(self, address: int, size: int) -> bytes:
            order.append(address)
            return super()._read(address, size)

    memory = Watched()
    memory.map(START, bytearray(PAGE * 4))
    addresses = np.array([START + 3 * PAGE, START + PAGE * 2, START], np.uint64)
    PackedRead(memory, addresses, np.array([8, 8, 8]), np.array([0, 1, 2])).read()
    assert order == addresses.tolist()


def test_a_closed_window_is_an_error():
    memory = memory_with([0, 2])
    addresses = np.array([START, START + 2 * PAGE], np.uint64)
    packed = PackedRead(memory, addresses, np.array([8, 8]), np.array([0, 0]))
    packed.read()
    memory.unmap(START + 2 * PAGE)
    with pytest.raises(MemoryAccessError):
        packed.read()
