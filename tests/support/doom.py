"""Starts the real Doom of the Debian package, in a window of a known size."""

from __future__ import annotations

from pathlib import Path

from soulslab.games import profile_path
from soulslab.siphon.process.launch import GameProcess
from soulslab.siphon.profile import Process, load_profile
from support.launching import launch


def doom_process() -> Process:
    return load_profile(profile_path(Path("doom"))).process


def start_doom(display) -> GameProcess:
    """Start Doom on a private display."""
    return launch(doom_process(), display=display.name, extra_environment=display.environment())
