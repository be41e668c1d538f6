"""A recording of the real Doom on a full disk: error, readable file, and a game that continues."""

import os
import subprocess
from contextlib import contextmanager
from shutil import which

from soulslab.siphon.recording.reading import read_recording
from support.doom_faults import program
from support.forked import ForkedPopen

MAX_BYTES = 6_000_000
#: Records into a file until that fails; arguments: the file, and how large it may get (0: as the disk has room).
PLAYER = """
import json, resource, signal, sys
from pathlib import Path
from soulslab.envs.tasks.process.doom import DoomEnv
from soulslab.errors import RecordingError
from soulslab.siphon.recording import recording_writer as writing
from soulslab.siphon.recording.recorder import Recorder, RecordingOptions

writing.COMMIT_S = 0.0
path, max_bytes = Path(sys.argv[1]), int(sys.argv[2])
env = DoomEnv(observation="both", frame_skip=1)
env.reset()
if max_bytes:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, resource.RLIM_INFINITY))
recorder = Recorder(env.session, path, RecordingOptions(rate_hz=60, compression="none"))
n_ticks = []
while not recorder.status().error:
    *_, is_over, is_cut, info = env.step(1)
    n_ticks.append(info["ticks"])
    if is_over or is_cut:
        env.reset()
told = ""
try:
    recorder.stop()
except RecordingError as error:
    told = str(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
after = [env.step(1)[4]["ticks"] for _ in range(10)]
health = int(env.reset()[0]["health"][0])
env.close()
print(json.dumps({"told": told, "lost_ticks": n_ticks.count(0), "after": after, "health": health}), flush=True)
"""


@contextmanager
def small_disk(folder):
    """Return a disk of a few megabytes, or without the right to mount a folder and a file size limit."""
    folder.mkdir()
    mount = [which("mount"), "-t", "tmpfs", "-o", f"size={MAX_BYTES}", "tmpfs", folder]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        yield folder, MAX_BYTES
        return
    try:
        yield folder, 0
    finally:
        subprocess.run([which("umount"), folder], check=True)


def test_the_disk_is_full_while_doom_is_recorded(tmp_path):
    with small_disk(tmp_path / "disk") as (disk, max_bytes):
        path = disk / "doom.h5"
        with program("-c", PLAYER, str(path), str(max_bytes), popen=ForkedPopen) as (_, said):
            assert said["told"].startswith(f"{path}: ")
            assert "No space left on device" in said["told"] or "File too large" in said["told"]
            assert (said["lost_ticks"], said["after"], said["health"]) == (0, [1] * 10, 100)
        recording = read_recording(path)
        assert len(recording) >= 1
        assert recording.frames[-1].any()
