"""Contract of the discovery of processes, with a target program that has the names of games."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from soulslab.errors import AmbiguousProcessError, AntiCheatError, ProcessExitedError, ProcessNotFoundError
from soulslab.siphon.process.discovery import executable_of, find_process, has_ended, refuse_anti_cheat
from soulslab.siphon.profile import Process
from support.target import Target, running


def process(name: str, **facts: object) -> Process:
    """Return the part of a profile about the process."""
    return Process(executable=name, **facts)  # type: ignore[arg-type]


class FindProcessContract:
    """Contract tests. The fixtures `program`, `unique` and `target` are in ``conftest.py``."""

    def test_finds_a_long_name(self, unique: Path):
        with running([unique]) as target:
            assert find_process(process(unique.name)) == target.pid
            assert find_process(process(unique.name), target.pid) == target.pid
            assert Path(executable_of(target.pid)).samefile(unique)
            with pytest.raises(ProcessNotFoundError):
                find_process(process(unique.name[:15]))

    def test_names_with_an_equal_prefix_are_different(self, unique: Path):
        other = Path(shutil.copy(unique, unique.with_name(unique.name.replace("long", "short"))))
        with running([unique]), running([other]) as target:
            assert find_process(process(other.name)) == target.pid

    def test_several_are_listed(self, unique: Path):
        with running([unique]) as one, running([unique, "-second"]) as two:
            with pytest.raises(AmbiguousProcessError) as caught:
                find_process(process(unique.name))
            assert sorted(caught.value.pids) == sorted([one.pid, two.pid])
            for line in (f"{one.pid}, started 20", unique.name):
                assert line in str(caught.value)
            assert find_process(process(unique.name), two.pid) == two.pid

    def test_an_exited_process_is_not_found(self, unique: Path):
        with running([unique]) as target:
            assert not has_ended(target.pid)
            target.exit()
            assert has_ended(target.pid)
            for pid in (0, target.pid):
                with pytest.raises(ProcessNotFoundError):
                    find_process(process(unique.name), pid)
            target.reap()
            assert has_ended(target.pid)
            with pytest.raises(ProcessExitedError):
                executable_of(target.pid)
            with pytest.raises(ProcessExitedError):
                refuse_anti_cheat(target.pid, process(unique.name))

    def test_a_similar_name_is_suggested(self, unique: Path):
        with running([unique]):
            with pytest.raises(ProcessNotFoundError, match=r"process\.executable") as caught:
                find_process(process(unique.name[:-1]))
            assert repr(unique.name) in str(caught.value)
        with pytest.raises(ProcessNotFoundError, match="start the game first"):
            find_process(process("Ωπ"))

    def test_a_pid_of_another_program_is_refused(self, target: Target, program: Path):
        with pytest.raises(ProcessNotFoundError, match=f"'{program.name}' and not 'eldenring") as caught:
            find_process(process("eldenring.exe"), target.pid)
        assert caught.value.pid == target.pid
        assert "give the id of the game" in str(caught.value)

    def test_we_are_not_the_game(self):
        name = Path(sys.executable).resolve().name
        try:
            assert find_process(process(name)) != os.getpid()
        except (ProcessNotFoundError, AmbiguousProcessError) as error:
            assert os.getpid() not in getattr(error, "pids", ())

    @pytest.mark.parametrize("name", ["EasyAntiCheat_x64.dll", "easyanticheat_x64.so", "BEClient_x64.dll"])
    def test_an_anti_cheat_in_the_process_is_refused(self, target: Target, tmp_path: Path, name: str):
        refuse_anti_cheat(target.pid, process("siphon_target_program"))
        module = tmp_path / name
        module.write_bytes(bytes(4096))
        target.do(f"map 4096 {module}")
        with pytest.raises(AntiCheatError, match=name.partition(".")[0]) as caught:
            refuse_anti_cheat(target.pid, process("siphon_target_program"))
        assert caught.value.pid == target.pid

    def test_an_anti_cheat_that_the_profile_names(self, target: Target, tmp_path: Path):
        module = tmp_path / "GuardDog.dll"
        module.write_bytes(bytes(4096))
        target.do(f"map 4096 {module}")
        refuse_anti_cheat(target.pid, process("x"))
        with pytest.raises(AntiCheatError, match=r"GuardDog.dll"):
            refuse_anti_cheat(target.pid, process("x", anti_cheat=("guarddog.*",)))

    def test_an_anti_cheat_of_the_same_session_is_refused(self, target: Target, program: Path, tmp_path: Path):
        guard = Path(shutil.copy(program, tmp_path / f"guard_{os.getpid()}.exe"))
        refuse_anti_cheat(target.pid, process("x", anti_cheat=(guard.name,)))
        with running([guard]), pytest.raises(AntiCheatError, match=guard.name):
            refuse_anti_cheat(target.pid, process("x", anti_cheat=(guard.name,)))
