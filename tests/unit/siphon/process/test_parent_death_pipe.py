import os
import select
import signal
import subprocess
import sys

from soulslab.siphon.process.child_process import ParentDeathPipe
from support.waiting import PATIENCE_S

# A process that starts a group of two, ties it to itself, says so and is killed.
OWNER = """
import os, signal, subprocess, sys
from soulslab.siphon.process.child_process import ParentDeathPipe
line = ParentDeathPipe()
command = ["sh", "-c", "sleep 600 & echo started; wait"]
child = subprocess.Popen(command, stdout=1, pass_fds=[line.fd], start_new_session=True)
line.tie(-child.pid, signal.SIGKILL)
if sys.argv[1] == "release":
    line.release()
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""


def run_owner(how):
    """Return the output of the owner, which ends when no process of the group holds the pipe."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, how], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert owner.stdout.readline() == b"started\n"
    return owner


def kill(owner):
    owner.stdin.write(b"\n")
    owner.stdin.close()
    assert owner.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_whole_group_is_killed_when_we_are():
    owner = run_owner("keep")
    assert not select.select([owner.stdout], [], [], 0)[0]
    kill(owner)
    assert select.select([owner.stdout], [], [], PATIENCE_S)[0]
    assert owner.stdout.read() == b""
    owner.stdout.close()


def test_one_that_was_released_lives_on():
    line = ParentDeathPipe()
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[line.fd])
    line.tie(child.pid, signal.SIGKILL)
    line.release()
    line.release()
    assert child.communicate(b"alive")[0] == b"alive"
    assert child.returncode == 0


def test_it_fires_when_our_end_closes():
    line = ParentDeathPipe()
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, pass_fds=[line.fd])
    line.tie(child.pid, signal.SIGTERM)
    os.close(line._our_end)
    assert child.wait(PATIENCE_S) == -signal.SIGTERM
    child.stdin.close()
    os.close(line.fd)
