"""Memory of a real process."""

import subprocess
import sys
from pathlib import Path

import pytest

from soulslab.errors import AttachDeniedError, ProcessExitedError
from soulslab.siphon.memory.linux import LinuxMemory, denied, read_regions
from support.memory_contract import PAGE
from support.process_memory_contract import ProcessMemoryContract
from support.target import AREA, Target, running

NOBODY = 65534


class TestLinuxMemory(ProcessMemoryContract):
    opened = LinuxMemory


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


def test_a_zombie_of_a_normal_user_has_ended():
    # The files of a zombie belong to root, so only root may open its memory.
    code = (
        "import os, subprocess; from soulslab.errors import ProcessExitedError\n"
        "from soulslab.siphon.memory.linux import LinuxMemory\n"
        "from soulslab.siphon.process.linux import executable_of\n"
        f"if os.getuid() == 0: os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "child = subprocess.Popen(['true'], cwd='/'); os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)\n"
        "for use in (LinuxMemory, executable_of):\n"
        "    try: use(child.pid)\n"
        "    except ProcessExitedError as error: print(error.pid == child.pid)\n"
        "child.wait()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


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
