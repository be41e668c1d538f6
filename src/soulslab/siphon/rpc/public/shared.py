"""The game of all public clients as what a recorder records: whichever session there is at the time."""

from __future__ import annotations

from collections.abc import Collection

from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.input import Input
from soulslab.siphon.profile import Profile
from soulslab.siphon.rpc.public.attachment import Attachment
from soulslab.siphon.session import Frame, Snapshot


class SharedGame:
    """See `soulslab.siphon.recording.recorder.Recordable`.

    Args:
        game: What leads to the session.
        profile: Its profile.
    """

    def __init__(self, game: Attachment, profile: Profile) -> None:
        self.profile = profile
        self._game = game

    @property
    def input(self) -> Input:
        """The keys of the session that there is now."""
        return self._game.use("input", lambda session: session.input)

    def snapshot(self, names: Collection[str] | None = None) -> Snapshot:
        """Read attributes."""
        wanted = None if names is None else list(names)
        return self._game.use("memory", lambda session: session.snapshot(wanted))

    def capture(self, frame_format: FrameFormat) -> Frame:
        """Take a picture."""
        return self._game.use("capture", lambda session: session.capture(frame_format))
