"""Folders for the recordings of public clients, on servers of both systems."""

from pathlib import PurePosixPath, PureWindowsPath

import pytest

from soulslab.siphon.rpc.public.recordings import folder_below


@pytest.mark.parametrize(
    ("asked", "on_linux", "on_windows"),
    [
        ("", "", ""),
        ("a/b", "a/b", "a/b"),
        ("/home/elsewhere", "home/elsewhere", "home/elsewhere"),
        ("../../etc", "etc", "etc"),
        ("a/../../b", "a/b", "a/b"),
        ("C:\\Users\\me\\fights", "Users/me/fights", "Users/me/fights"),
        ("x\\C:\\evil", "x/evil", "x/evil"),
        ("x\\C:evil", "x", "x"),
        ("/C:/evil", "C:/evil", "evil"),
        ("../C:/evil", "C:/evil", "evil"),
        ("\\\\server\\share\\C:\\evil", "evil", "evil"),
        ("C:D:\\evil", "evil", "evil"),
        ("/data/2026-11-28 12:30", "data/2026-11-28 12:30", "data"),
    ],
)
def test_the_folder_of_a_client_is_below_that_of_the_operator(asked, on_linux, on_windows):
    for root, expected in ((PurePosixPath("/recordings"), on_linux), (PureWindowsPath("D:\\recordings"), on_windows)):
        folder = folder_below(root, asked)
        assert folder == root / expected
        assert folder.is_relative_to(root)
