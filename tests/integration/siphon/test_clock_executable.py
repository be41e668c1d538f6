"""Programs that cannot load the clock library are refused at once, by the reason."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from soulslab.errors import ClockUnavailableError
from soulslab.siphon.clock import lockstep
from soulslab.siphon.clock.lockstep import LockstepClock
from soulslab.siphon.clock.lockstep_page import LockstepPage, check_can_preload

#: Waits for its standard input to end: system calls of 32-bit x86 only, as there may be no 32-bit libc.
SOURCE_32 = """
.globl _start
_start:
    movl $3, %eax
    xorl %ebx, %ebx
    movl %esp, %ecx
    movl $1, %edx
    int $0x80
    movl $1, %eax
    int $0x80
"""


def compile_program(folder, kind):
    program = folder / kind
    if kind == "32-bit":
        source, options = folder / "program.s", ["-m32", "-nostdlib", "-static"]
        source.write_text(SOURCE_32)
    else:
        source, options = folder / "program.c", ["-static"] if kind == "static" else []
        source.write_text("#include <unistd.h>\nint main(void) { char byte; return (int)read(0, &byte, 1); }\n")
    subprocess.run([shutil.which("gcc"), *options, "-o", program, source], check=True)
    if kind == "setgid":
        others = {*os.getgroups(), *([os.getgid() + 1] if os.getuid() == 0 else [])} - {os.getgid()}
        if not others:
            pytest.skip("this user has no second group")
        os.chown(program, -1, min(others))
        program.chmod(0o2755)
    return program


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("static", "statically linked"), ("32-bit", "a 32-bit program"), ("setgid", "setuid or setgid")],
)
def test_it_is_refused_by_name_and_at_once(tmp_path, monkeypatch, kind, reason):
    monkeypatch.setattr(lockstep, "_LOAD_DEADLINE_S", 1e9)  # a refusal after the deadline would not come
    page = LockstepPage.create()
    program = compile_program(tmp_path, kind)
    with subprocess.Popen([program], env={**os.environ, **page.environment()}, stdin=subprocess.PIPE) as process:
        try:
            with pytest.raises(ClockUnavailableError, match=rf"{program} is .*{reason}.* Use the grade"):
                LockstepClock(page, process.pid)
        finally:
            process.kill()
            page.close()


def test_a_dynamic_program_and_one_that_has_ended_are_not_refused(tmp_path):
    with subprocess.Popen([compile_program(tmp_path, "dynamic")], stdin=subprocess.PIPE) as process:
        check_can_preload(process.pid)
        process.kill()
        process.wait()
        assert not Path(f"/proc/{process.pid}").exists()
        check_can_preload(process.pid)
