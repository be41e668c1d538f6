"""Contract of the memory of real processes, by the target program."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from soulslab.errors import MemoryAccessError, ProcessExitedError, ProcessNotFoundError
from support.memory_contract import PAGE, MemoryContract, Subject
from support.target import AREA, Target
from support.waiting import wait_for


class ProcessMemoryContract(MemoryContract):
    """Contract tests; subclasses set `opened`. The fixtures `target` and `memory` are in ``conftest.py``."""

    opened: type

    @pytest.fixture
    def subject(self, target: Target, memory) -> Subject:
        content = bytes(i * 7 % 251 for i in range(2 * PAGE))
        assert target.do(f"map {len(content)}") == AREA
        memory.write(AREA, content)
        return Subject(memory, AREA, content, target.exit)

    def test_reads_many_megabytes(self, target: Target, memory):
        size = 9_000_001
        target.do(f"map {size}")
        content = np.random.default_rng(0).bytes(size)
        memory.write(AREA, content)
        buffer = bytearray(size)
        memory.read_into(AREA, memoryview(buffer))
        assert buffer == content

    def test_a_write_respects_the_page_protection(self, target: Target, memory):
        target.do("map 4096")
        target.do(f"rx {AREA}")
        (region,) = [region for region in memory.regions() if region.start == AREA]
        assert (region.is_writable, region.is_executable) == (False, True)
        with pytest.raises(MemoryAccessError, match="may not write it itself") as caught:
            memory.write(AREA + 5, b"\xcc\xc3")
        assert (caught.value.address, caught.value.size) == (AREA + 5, 2)
        assert memory.read(AREA + 4, 4) == bytes(4)

    def test_a_write_that_reaches_a_protected_page_writes_nothing(self, target: Target, memory):
        target.do(f"map {3 * PAGE}")
        target.do(f"rx {AREA + PAGE}")
        with pytest.raises(MemoryAccessError):
            memory.write(AREA + PAGE, bytes([1]) * 8)
        with pytest.raises(MemoryAccessError):
            memory.write(AREA + 2 * PAGE - 4, bytes([1]) * 8)
        assert memory.read(AREA + PAGE, 2 * PAGE) == bytes(2 * PAGE)

    def test_a_protected_page_is_an_error_and_not_zero(self, target: Target, memory):
        player = player_of(target, memory)
        memory.read(player, 8)
        target.do("protect")
        with pytest.raises(MemoryAccessError):
            memory.read(player, 8)
        with pytest.raises(MemoryAccessError):
            memory.write(player, b"12345678")
        (region,) = [region for region in memory.regions() if region.start <= player < region.end]
        assert not region.is_readable

    def test_every_region_that_it_calls_readable_is_so(self, memory):
        regions = memory.regions()
        assert sum(region.is_executable and region.is_readable for region in regions) >= 3
        for region in regions:
            if region.is_readable and not region.path.startswith("/dev"):
                assert len(memory.read(region.start, 16)) == 16

    def test_regions_after_a_gap_are_listed(self, target: Target, memory):
        target.do(f"map {PAGE}")
        regions = memory.regions()
        assert any(one.end < other.start for one, other in pairwise(regions))
        for address in (AREA, target.function, target.root):
            assert any(region.start <= address < region.end for region in regions)

    def test_a_batch_of_random_parts(self, target: Target, memory):
        rng = np.random.default_rng(5)
        content = bytearray(rng.bytes(200 * PAGE))
        target.do(f"map {len(content)}")
        memory.write(AREA, bytes(content))
        for n_groups in (0, 1, 4):
            sizes = rng.integers(1, 5000, 60)
            groups = np.sort(rng.integers(0, n_groups, 60)) if n_groups else []
            batch = memory.batch(sizes.tolist(), groups)
            for _ in range(3):
                # On few pages, so that parts overlap and touch, with gaps between.
                places = rng.integers(0, 39, 60) * 5 * PAGE + rng.integers(0, 2 * PAGE, 60)
                batch.addresses[:] = places + AREA
                for _ in range(2):
                    parts = [content[at : at + n] for at, n in zip(places.tolist(), sizes.tolist(), strict=True)]
                    assert bytes(batch.read()) == b"".join(parts)
                    # The next read has to see a change.
                    at = int(places[0])
                    content[at] ^= 0xFF
                    memory.write(AREA + at, bytes(content[at : at + 1]))

    def test_a_batch_notices_a_page_that_is_gone(self, target: Target, memory):
        player = player_of(target, memory)
        batch = memory.batch([4, 8, 4])
        batch.addresses[:] = [target.root, player + 8, player + 4]
        batch.read()
        target.do("unmap")
        with pytest.raises(MemoryAccessError) as caught:
            batch.read()
        assert (caught.value.address, caught.value.size) == (player + 8, 8)

    def test_a_killed_process_is_noticed_at_once(self, target: Target, memory):
        batch = memory.batch([8])
        batch.addresses[:] = target.root
        target.process.kill()
        with pytest.raises(ProcessExitedError):
            while True:
                batch.read()

    def test_a_process_that_was_reaped_is_noticed(self, target: Target, memory):
        target.exit(3)
        assert target.reap() == 3
        with pytest.raises(ProcessExitedError):
            memory.read(target.root, 8)
        memory.close()

        def is_unknown() -> bool:
            try:
                self.opened(target.pid)
            except ProcessExitedError:
                return False  # Windows still removes it
            except ProcessNotFoundError as error:
                return "does not exist" in str(error)
            return False

        wait_for(is_unknown)

    def test_a_zombie_cannot_be_attached_to(self, target: Target):
        target.exit()
        with pytest.raises(ProcessExitedError):
            self.opened(target.pid)

    @pytest.mark.parametrize("pid", [-1, 0, 2**22 + 5, 2**40])
    def test_an_invalid_pid_is_an_error(self, pid: int):
        with pytest.raises(ProcessNotFoundError):
            self.opened(pid)

    def test_its_own_process_can_be_read(self):
        content = np.random.default_rng(1).integers(0, 256, 3 * PAGE, np.uint8)
        memory = self.opened(os.getpid())
        assert memory.read(content.ctypes.data, content.size) == content.tobytes()
        memory.close()

    def test_the_path_of_a_mapped_file(self, target: Target, memory, tmp_path: Path):
        plain = tmp_path / "plain"
        plain.write_bytes(b"x" * PAGE)
        target.do(f"map {PAGE} {plain}")
        (path,) = [region.path for region in memory.regions() if region.start == AREA]
        assert Path(path).samefile(plain)


def player_of(target: Target, memory) -> int:
    """Return the address of the player."""
    world = int.from_bytes(memory.read(target.root, 8), "little")
    area = int.from_bytes(memory.read(world + 8, 8), "little")
    return int.from_bytes(memory.read(area + 0x28, 8), "little")
