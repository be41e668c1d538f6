"""Contract of all memory backends, real ones and byte arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
import pytest

from soulslab.errors import MemoryAccessError, ProcessExitedError, SessionStateError
from soulslab.siphon.memory import Memory

PAGE = 4096


class Ender(Protocol):
    def __call__(self) -> None: ...


@dataclass
class Subject:
    """A memory with two writable pages that contain ``content``, followed by an unmapped page."""

    memory: Memory
    address: int
    content: bytes
    end: Ender = field(repr=False)


class MemoryContract:
    """Contract tests; subclasses provide the fixture `subject`."""

    def test_reads_what_is_there(self, subject: Subject) -> None:
        assert subject.memory.read(subject.address, 16) == subject.content[:16]
        assert subject.memory.read(subject.address + 4090, 12) == subject.content[4090:4102]
        assert subject.memory.read(subject.address, 2 * PAGE) == subject.content
        assert subject.memory.read(subject.address, 0) == b""

    def test_reads_into_a_buffer(self, subject: Subject) -> None:
        buffer = bytearray(5000)
        subject.memory.read_into(subject.address + 3, memoryview(buffer))
        assert buffer == subject.content[3:5003]

    @pytest.mark.parametrize("address", [0, 8, -8, 2**47, 2**63 - 4, 2**63, 2**64 - 8, 2**64 + 8, 2**80])
    def test_an_unmapped_address_is_an_error(self, subject: Subject, address: int) -> None:
        with pytest.raises(MemoryAccessError) as caught:
            subject.memory.read(address, 8)
        assert (caught.value.address, caught.value.size, caught.value.pid) == (address, 8, subject.memory.pid)
        with pytest.raises(MemoryAccessError):
            subject.memory.write(address, b"12345678")
        with pytest.raises(MemoryAccessError):
            subject.memory.read_into(address, memoryview(bytearray(8)))

    def test_a_partly_mapped_range_is_an_error(self, subject: Subject) -> None:
        end = subject.address + 2 * PAGE
        with pytest.raises(MemoryAccessError):
            subject.memory.read(end - 4, 8)
        with pytest.raises(MemoryAccessError):
            subject.memory.read(end - PAGE, PAGE + 8)
        with pytest.raises(MemoryAccessError):
            subject.memory.write(end - 4, b"12345678")
        assert subject.memory.read(end - 4, 4) == subject.content[-4:]

    def test_writes(self, subject: Subject) -> None:
        subject.memory.write(subject.address + 4094, b"abcd")
        assert subject.memory.read(subject.address + 4093, 6) == (
            subject.content[4093:4094] + b"abcd" + subject.content[4098:4099]
        )

    def test_a_batch_reads_scattered_parts(self, subject: Subject) -> None:
        batch = subject.memory.batch([1, 8, 3])
        assert batch.addresses.dtype == np.uint64
        for shift in (0, 100, 4000):
            at = [shift, shift + 50, shift + 7]
            batch.addresses[:] = np.array(at, np.uint64) + np.uint64(subject.address)
            content = subject.content
            assert bytes(batch.read()) == content[at[0] :][:1] + content[at[1] :][:8] + content[at[2] :][:3]

    @pytest.mark.parametrize("n", [0, 1, 1024, 1025, 3000])
    def test_a_batch_takes_any_number_of_parts(self, subject: Subject, n: int) -> None:
        batch = subject.memory.batch([2] * n)
        places = np.arange(n) * 2 % 8000
        batch.addresses[:] = places.astype(np.uint64) + np.uint64(subject.address)
        assert bytes(batch.read()) == b"".join(subject.content[i : i + 2] for i in places.tolist())

    @pytest.mark.parametrize("bad", [0, 5, 1023, 1024, 1999])
    def test_a_batch_names_the_first_part_that_cannot_be_read(self, subject: Subject, bad: int) -> None:
        batch = subject.memory.batch([4] * 2000)
        batch.addresses[:] = subject.address
        batch.addresses[bad] = 16
        with pytest.raises(MemoryAccessError) as caught:
            batch.read()
        assert (caught.value.address, caught.value.size) == (16, 4)
        batch.addresses[bad] = subject.address
        assert bytes(batch.read()) == subject.content[:4] * 2000

    def test_lists_its_regions(self, subject: Subject) -> None:
        regions = subject.memory.regions()
        assert all(one.end <= other.start for one, other in pairwise(regions))
        (ours,) = [region for region in regions if region.start <= subject.address < region.end]
        assert ours.is_readable
        assert ours.is_writable
        assert not ours.is_executable
        assert ours.path == ""

    def test_after_the_end_a_read_is_an_error(self, subject: Subject) -> None:
        batch = subject.memory.batch([4])
        batch.addresses[:] = subject.address
        subject.end()
        for use in (
            lambda: subject.memory.read(subject.address, 4),
            lambda: subject.memory.read(16, 4),
            lambda: subject.memory.read_into(subject.address, memoryview(bytearray(10000))),
            lambda: subject.memory.write(subject.address, b"a"),
            batch.read,
            subject.memory.regions,
        ):
            with pytest.raises(ProcessExitedError) as caught:
                use()
            assert caught.value.pid == subject.memory.pid

    def test_the_error_after_close_names_the_cause(self, subject: Subject) -> None:
        batch = subject.memory.batch([4])
        batch.addresses[:] = subject.address
        subject.memory.close()
        subject.memory.close()
        for use in (
            lambda: subject.memory.read(subject.address, 4),
            lambda: subject.memory.write(subject.address, b"a"),
            batch.read,
            subject.memory.regions,
        ):
            with pytest.raises(SessionStateError, match="closed"):
                use()
