import pytest

from soulslab.errors import MemoryAccessError
from soulslab.testing.fake_memory import FakeMemory
from support.memory_contract import PAGE, MemoryContract, Subject

ADDRESS = 0x7000_0000


class TestFakeMemory(MemoryContract):
    @pytest.fixture
    def subject(self) -> Subject:
        memory = FakeMemory(7)
        content = bytes(i * 7 % 251 for i in range(2 * PAGE))
        memory.map(ADDRESS, bytearray(content))
        return Subject(memory, ADDRESS, content, lambda: setattr(memory, "has_ended", True))


def test_writes_to_the_array_change_the_memory():
    memory = FakeMemory()
    array = memory.map(0x1000, bytearray(4))
    array[1] = 9
    assert memory.read(0x1000, 4) == b"\0\x09\0\0"


def test_mappings_side_by_side_are_read_as_one():
    memory = FakeMemory()
    memory.map(0x1004, bytearray(b"5678"))
    memory.map(0x1000, bytearray(b"1234"))
    assert memory.read(0x1002, 4) == b"3456"
    memory.write(0x1002, b"abcd")
    assert memory.read(0x1000, 8) == b"12abcd78"
    memory.unmap(0x1004)
    assert [region.start for region in memory.regions()] == [0x1000]


@pytest.mark.parametrize(("address", "size"), [(0x1000, 1), (0xFFF, 2), (0x1003, 9), (0x2000, 0)])
def test_mappings_do_not_overlap(address: int, size: int):
    memory = FakeMemory()
    memory.map(0x1000, bytearray(4))
    with pytest.raises(ValueError, match="overlaps"):
        memory.map(address, bytearray(size))


def test_counts_its_reads():
    memory = FakeMemory()
    memory.map(0x1000, bytearray(64))
    batch = memory.batch([8, 8, 8])
    batch.addresses[:] = 0x1000
    batch.read()
    memory.read(0x1000, 4)
    assert memory.n_reads == 2


def test_a_write_respects_the_page_protection():
    memory = FakeMemory()
    memory.map(0x1000, bytearray(b"code"), is_writable=False, is_executable=True)
    with pytest.raises(MemoryAccessError, match="may not write it itself"):
        memory.write(0x1000, b"evil")
    assert memory.read(0x1000, 4) == b"code"
