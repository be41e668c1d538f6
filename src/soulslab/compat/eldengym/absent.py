"""Names of EldenGym 0.6.0 that are not here, and what does the same."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


def _each(advice: Mapping[tuple[str, ...], str]) -> Mapping[str, str]:
    """Return the advice by name."""
    return MappingProxyType({name: text for names, text in advice.items() for name in names})


#: Of the package.
OF_PACKAGE: Final = _each(
    {
        ("registry", "envs"): "list_envs() returns the names, register() adds one",
        ("EldenClient",): "env.client has its properties",
        ("SiphonClient",): "env.session reads and writes the game; soulslab.siphon.rpc.client.connect(address) is one "
        "with a game on a server",
        (
            "FrameStack",
            "ResizeFrame",
            "GrayscaleFrame",
            "DictFrameStack",
            "DictResizeFrame",
            "DictGrayscaleFrame",
            "NormalizeMemoryAttributes",
            "HPRefundWrapper",
            "AnimFrameWrapper",
            "SDFObsWrapper",
            "OOBSafetyWrapper",
            "DodgePolicyRewardWrapper",
            "ArenaBoundary",
            "BoundaryDistances",
            "wrappers",
            "arena_boundary",
        ): "EldenGym's own goes over our environment as it is; import it from eldengym",
    }
)
#: Of ``env.client``.
OF_CLIENT: Final = _each(
    {
        ("launch_game",): "make(..., launch_game=True) starts the game",
        ("scenarios",): "list_envs() has their names, soulslab.games.boss_facts what is known of them",
        ("enter_menu", "quit_to_title"): "env.reset() gets to a fight from whatever the game is at; "
        "EldenRing(env.session) has enter_world() and leave_world()",
        ("copy_save_file",): "soulslab.games.save_files has backup() and restore()",
        (
            "set_process_config",
            "init_all",
            "initialize_memory",
            "initialize_input",
            "initialize_capture",
            "get_server_status",
        ): "the environment finds the game by itself; env.session.info tells which it is",
        ("input_key_tap", "input_key_toggle", "move_mouse"): "an action has the keys of a step; between two steps "
        "there is env.session.input",
        (
            "capture_frame",
            "capture_and_save",
            "start_frame_stream",
            "get_latest_frame",
            "stop_frame_stream",
            "stream_frames",
            "stream_frames_to_callback",
        ): "each observation has its frame; env.session.capture() takes one between two steps",
        (
            "start_recording",
            "stop_recording",
            "get_recording_status",
            "download_recording",
        ): "soulslab.siphon.recording.recorder.Recorder(env.session, path) records",
        ("execute_command",): "no command is run for anybody",
        ("close",): "env.close() does it",
    }
)
