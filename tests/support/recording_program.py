"""A program that records the toy until it is killed or its disk is full.

``recording_program.py PATH FRAMES COMMIT_S MAX_BYTES [forget]``. It prints when it has started, the number of samples,
the error, and whether the game continues after it.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
from pathlib import Path

from soulslab.errors import RecordingError
from soulslab.siphon.recording import recording_writer as writing
from soulslab.siphon.recording.recorder import Recorder, RecordingOptions
from soulslab.siphon.session import Step
from soulslab.testing.fake_session import FakeSession


def say(text: object) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    path, frames, commit_s, max_bytes = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), int(sys.argv[4])
    writing.COMMIT_S = commit_s
    if max_bytes:
        # A limit on the file size has the effect of a full disk, which sends no signal.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, max_bytes))
    with FakeSession() as session:
        options = RecordingOptions(rate_hz=100, frames=frames, compression="none")
        recorder = Recorder(session, path, options)
        if sys.argv[5:] == ["forget"]:
            return
        say("begun")
        while not recorder.status().error:
            session.step(Step(held=("W",), advance_s=0.01))
            say(recorder.status().n_samples)
            time.sleep(0.01)
        try:
            recorder.stop()
        except RecordingError as error:
            say(f"failed: {error}")
        n = session.read("ticks")
        session.step(Step(advance_s=0.1))
        say(f"goes on: {session.read('ticks') - n}")


if __name__ == "__main__":
    main()
