"""Recordings after a kill, on a full disk, and without an end."""

import os
import subprocess
import sys
from pathlib import Path
from shutil import which

import h5py
import pytest

from soulslab.siphon.recording.committed_file import finish_commit, journal_of
from soulslab.siphon.recording.reading import read_recording, video_frames
from support.waiting import PATIENCE_S

PROGRAM = Path(__file__).parents[2] / "support" / "recording_program.py"
RATE_HZ = 100


def start(path, frames, commit_s, max_bytes=0, *more):
    arguments = [sys.executable, PROGRAM, path, frames, str(commit_s), str(max_bytes), *more]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def kill_after(path, frames, commit_s, n_samples):
    """Record samples, then kill -9 the process; return the number of recorded samples."""
    with start(path, frames, commit_s) as program:
        try:
            assert program.stdout.readline() == "begun\n"
            while int(line := program.stdout.readline()) < n_samples:
                pass
        finally:
            program.kill()
        # What it could still say before it died.
        return int((line + program.stdout.read()).split("\n")[-2])


@pytest.mark.parametrize(("frames", "commit_s", "n_samples"), [("dataset", 0.5, 130), ("video", 0.5, 130)])
def test_a_kill_costs_a_second_at_most_and_leaves_files_that_anything_reads(tmp_path, frames, commit_s, n_samples):
    path = tmp_path / "a.h5"
    n_taken = kill_after(path, frames, commit_s, n_samples)
    assert not journal_of(path).exists()
    with h5py.File(path, "r") as file:  # plain h5py: nothing was repaired
        n = len(file["timestamps"])
        assert n_taken - n <= RATE_HZ
        if frames == "dataset":
            assert file["frames"][n - 1].any()
    recording = read_recording(path)
    assert len(recording) == n
    assert all(len(column) == n for column in recording.attributes.values())
    if frames == "video":
        assert n_taken - len(list(video_frames(recording.video))) <= RATE_HZ


@pytest.mark.parametrize("n_samples", [5, 11, 23, 37])
def test_a_kill_within_a_commit_is_healed(tmp_path, n_samples):
    # Commits without pause, so that the kill is likely to hit one.
    path = tmp_path / "a.h5"
    n_taken = kill_after(path, "dataset", 0.0, n_samples)
    finish_commit(path)
    recording = read_recording(path)
    assert len(recording) <= n_taken + RATE_HZ  # none, if the kill came before the first commit had ended
    assert len(recording.frames) == len(recording)
    assert recording.frames.any(axis=(1, 2, 3)).all()


def test_a_full_disk_ends_the_recording_and_not_the_game(tmp_path):
    path = tmp_path / "a.h5"
    with start(path, "dataset", 0.05, 400_000) as program:
        try:
            output, _ = program.communicate(timeout=PATIENCE_S)
        finally:
            program.kill()
    assert program.returncode == 0
    assert "failed: " in output
    assert "File too large" in output
    assert "goes on: 6" in output
    with h5py.File(path, "r") as file:
        assert len(file["timestamps"]) > 0
    assert read_recording(path).frames[-1].any()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_full_disk(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = [which("mount"), "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"cannot mount here: {mounted.stderr}")
    try:
        with start(disk / "a.h5", "dataset", 0.05) as program:
            try:
                output, _ = program.communicate(timeout=PATIENCE_S)
            finally:
                program.kill()
        assert "No space left on device" in output
        assert "goes on: 6" in output
        recording = read_recording(disk / "a.h5")
        assert len(recording) > 10
        assert recording.frames[-1].any()
    finally:
        subprocess.run([which("umount"), disk], check=True)


def test_a_program_that_forgets_its_recorder_ends_and_so_does_the_recording(tmp_path):
    with start(tmp_path / "a.h5", "dataset", 0.5, 0, "forget") as program:
        try:
            assert program.wait(timeout=PATIENCE_S) == 0
        finally:
            program.kill()
    assert len(read_recording(tmp_path / "a.h5")) >= 1
