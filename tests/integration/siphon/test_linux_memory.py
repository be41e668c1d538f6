"""Memory of a real process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from soulslab.errors import (
    AttachDeniedError,
    MemoryAccessError,
    ProcessExitedError,
    ProcessNotFoundError,
)
from soulslab.siphon.memory.linux import LinuxMemory, denied, read_regions
from support.memory_contract import PAGE, MemoryContract, Subject
from support.target import Target, running

AREA = 0x140000000
NOBODY = 65534


class TestLinuxMemory(MemoryContract):
    @pytest.fixture
    def subject(self, target: Target, memory: LinuxMemory) -> Subject:
        content = bytes(i * 7 % 251 for i in range(2 * PAGE))
        assert target.do(f"map {len(content)}") == AREA
        memory.write(AREA, content)
        return Subject(memory, AREA, content, target.exit)


def test_reads_many_megabytes(target: Target, memory: LinuxMemory):
    size = 9_000_001
    target.do(f"map {size}")
    content = np.random.default_rng(0).bytes(size)
    memory.write(AREA, content)
    buffer = bytearray(size)
    memory.read_into(AREA, memoryview(buffer))
    assert buffer == content


def test_a_write_respects_the_page_protection(target: Target, memory: LinuxMemory):
    target.do("map 4096")
    target.do(f"rx {AREA}")
    (region,) = [region for region in memory.regions() if region.start == AREA]
    assert (region.is_writable, region.is_executable) == (False, True)
    with pytest.raises(MemoryAccessError, match="may not write it itself") as caught:
        memory.write(AREA + 5, b"\xcc\xc3")
    assert (caught.value.address, caught.value.size) == (AREA + 5, 2)
    assert memory.read(AREA + 4, 4) == bytes(4)


def test_a_protected_page_is_an_error_and_not_zero(target: Target, memory: LinuxMemory):
    world = int.from_bytes(memory.read(target.root, 8), "little")
    area = int.from_bytes(memory.read(world + 8, 8), "little")
    player = int.from_bytes(memory.read(area + 0x28, 8), "little")
    memory.read(player, 8)
    target.do("protect")
    with pytest.raises(MemoryAccessError):
        memory.read(player, 8)
    with pytest.raises(MemoryAccessError):
        memory.write(player, b"12345678")


def test_every_region_that_it_calls_readable_is_so(memory: LinuxMemory):
    regions = memory.regions()
    assert sum(region.is_executable and region.is_readable for region in regions) >= 3
    for region in regions:
        if region.is_readable and not region.path.startswith("/dev"):
            assert len(memory.read(region.start, 16)) == 16


@pytest.mark.parametrize("name", ["with space", "new\nline", "back\\slash", "ümläut", "so (deleted) what", "odd\udcff"])
def test_names_of_mapped_files_are_as_they_are(target: Target, tmp_path: Path, name: str):
    plain, odd = tmp_path / "plain", tmp_path / name
    plain.write_bytes(b"x" * PAGE)
    target.do(f"map {PAGE} {plain}")
    assert [region.path for region in read_regions(target.pid) if region.start == AREA] == [str(plain)]
    plain.rename(odd)
    assert [region.path for region in read_regions(target.pid) if region.start == AREA] == [str(odd)]
    odd.unlink()
    assert [region.path for region in read_regions(target.pid) if region.start == AREA] == [str(odd)]


def test_a_killed_process_is_noticed_at_once(target: Target, memory: LinuxMemory):
    batch = memory.batch([8])
    batch.addresses[:] = target.root
    os.kill(target.pid, signal.SIGKILL)
    with pytest.raises(ProcessExitedError):
        while True:
            batch.read()


def test_a_process_that_was_reaped_is_noticed(target: Target, memory: LinuxMemory):
    target.exit(3)
    assert target.reap() == 3
    with pytest.raises(ProcessExitedError):
        memory.read(target.root, 8)
    with pytest.raises(ProcessNotFoundError, match="does not exist"):
        LinuxMemory(target.pid)


def test_a_zombie_cannot_be_attached_to(target: Target):
    target.exit()
    with pytest.raises(ProcessExitedError):
        LinuxMemory(target.pid)


@pytest.mark.parametrize("pid", [-1, 0, 2**22 + 5, 2**40])
def test_an_invalid_pid_is_an_error(pid: int):
    with pytest.raises(ProcessNotFoundError):
        LinuxMemory(pid)


def test_another_program_under_the_same_pid_is_not_ours(target: Target, memory: LinuxMemory, program: Path):
    # A pid that is used again cannot be had at will; the handle that tells is closed by the end in both cases.
    target.exit()
    target.reap()
    with running([program]) as other:
        another = LinuxMemory(other.pid)
        memory._read_part = another._read_part
        with pytest.raises(ProcessExitedError):
            memory.read(other.root, 8)
        another.close()


def test_another_users_process_is_refused_with_advice(target: Target):
    # Root may read all processes, so the reader gives that up; for others the target hides itself.
    target.do("hide")
    code = (
        "import os, sys; from soulslab.errors import AttachDeniedError; from soulslab.siphon.memory.linux import *\n"
        f"if os.getuid() == 0: os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "for use in (LinuxMemory, read_regions):\n"
        "    try: use(int(sys.argv[1]))\n"
        "    except AttachDeniedError as error: print(error.pid, error)\n"
    )
    command = [sys.executable, "-c", code, str(target.pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith(f"{target.pid} process {target.pid} must not be read")
        assert "cap_sys_ptrace" in line


@pytest.mark.parametrize(
    ("scope", "advice"),
    [
        ("0", "as the user that runs the game"),
        ("1", "let soulslab start the game"),
        ("2", "only CAP_SYS_PTRACE"),
        ("3", "by a boot"),
    ],
)
def test_the_advice_fits_the_system(tmp_path: Path, scope: str, advice: str):
    yama = tmp_path / "ptrace_scope"
    yama.write_text(f"{scope}\n")
    error = denied(5, yama)
    assert isinstance(error, AttachDeniedError)
    assert error.pid == 5
    assert advice in str(error)


def test_leaves_no_file_open(target: Target):
    def n_open() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = n_open()
    for _ in range(20):
        memory = LinuxMemory(target.pid)
        memory.read(target.root, 8)
        memory.regions()
        memory.close()
    assert n_open() == before
    target.exit()
    for _ in range(5):
        with pytest.raises(ProcessExitedError):
            LinuxMemory(target.pid)
    assert n_open() == before
