"""Execution of requests on a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from soulslab.errors import ReadOnlyError, WireError
from soulslab.siphon.capture import FrameFormat
from soulslab.siphon.profile import Profile
from soulslab.siphon.rpc import messages as m
from soulslab.siphon.rpc.frame_transfer import FrameSender
from soulslab.siphon.session import Session, Snapshot, Step

MAX_SIDE_PX = 1 << 14
#: Maximum size of an uncompressed frame in an answer; the rest of the answer needs some room.
MAX_FRAME_BYTES = m.MAX_ANSWER_BYTES - (1 << 20)
#: Maximum game time of one request, because a game in the middle of an advance cannot be stopped.
MAX_ADVANCE_S = 3600.0


def perform(request: m.Request, session: Session, frames: FrameSender) -> m.AnyAnswer:
    """Execute a request.

    Args:
        request: Request.
        session: Session of the game.
        frames: Sender of frames.

    Raises:
        WireError: The request is not valid.
        SoulslabError: Error raised by the session.
    """
    return _DOERS[type(request)](request, session, frames)


def changes_game(request: m.Request) -> bool:
    """Return whether a request needs control of the game."""
    if isinstance(request, m.DoStep):
        return request.step.changes_game
    return request.controls


def sends_input(request: m.Request) -> bool:
    """Return whether keys may be held after a request."""
    if isinstance(request, m.DoStep):
        return request.step.held is not None
    return isinstance(request, m.Hold | m.Type)


def as_attribute(request: m.WriteNumber, profile: Profile) -> m.Write:
    """Convert the write of a number to a write of the attribute at the same place.

    Raises:
        ReadOnlyError: The profile has no attribute there, or it is not writable.
    """
    where = request.where
    for name, known in profile.attributes.items():
        is_same = (known.base, known.offsets, known.type, known.bit) == (
            where.base,
            where.offsets,
            where.type,
            where.bit,
        )
        if is_same and known.is_writable and known.length == 1 and known.scale == 1.0:
            return m.Write({name: request.value})
    raise ReadOnlyError(
        f"cannot write a number behind {request.where.base!r}: the profile has no writable attribute there. A server "
        f"that permits writes at any address is started with --allow-raw-writes (docs: Remote sessions)"
    )


def pack_values(snapshot: Snapshot) -> m.Values:
    """Return a snapshot as a message."""
    return m.Values(dict(snapshot), snapshot.game_time_s, snapshot.wall_time_s)


def check_frame_format(frame_format: FrameFormat) -> None:
    """Raise `WireError` for an impossible or unreasonable frame format."""
    width, height = frame_format.width_px, frame_format.height_px
    if not (0 <= width <= MAX_SIDE_PX and 0 <= height <= MAX_SIDE_PX) or (width == 0) != (height == 0):
        raise WireError(f"a frame cannot be {width}x{height}: give 0x0, or two sides from 1 to {MAX_SIDE_PX}")
    n_bytes = width * height * (1 if frame_format.is_grey else 3)
    if n_bytes > MAX_FRAME_BYTES:
        raise WireError(f"a frame of {width}x{height} has {n_bytes} bytes, and {MAX_FRAME_BYTES} can be sent")


def _do_step(request: m.DoStep, session: Session, frames: FrameSender) -> m.Stepped:
    _check_step(request.step)
    result = session.step(request.step)
    frame = frames.pack(result.frame) if result.frame is not None else None
    return m.Stepped(result.advance, pack_values(result.snapshot), frame)


def _check_step(step: Step) -> None:
    if step.frame is not None:
        check_frame_format(step.frame)
    if not 0.0 <= step.advance_s <= MAX_ADVANCE_S:
        raise WireError(f"advance_s is {step.advance_s}, and has to be from 0 to {MAX_ADVANCE_S:g}")
    if not 0.0 <= step.deadline_s <= MAX_ADVANCE_S:
        raise WireError(f"deadline_s is {step.deadline_s}, and has to be from 0 to {MAX_ADVANCE_S:g}")
    if step.speed is not None and not 0.001 <= step.speed <= 1000.0:
        raise WireError(f"speed is {step.speed}, and has to be from 0.001 to 1000")
    if max(map(abs, step.mouse_px)) > 2**15:
        raise WireError(f"the mouse cannot be moved by {step.mouse_px}")


def _grab(request: m.Grab, session: Session, frames: FrameSender) -> m.FrameData:
    check_frame_format(request.frame_format)
    return frames.pack(session.capture(request.frame_format))


def _write(request: m.Write, session: Session, _: FrameSender) -> m.Done:
    session.write(request.values)
    return m.Done()


def _write_number(request: m.WriteNumber, session: Session, _: FrameSender) -> m.Done:
    session.write_number(request.where, request.value)
    return m.Done()


def _hold(request: m.Hold, session: Session, _: FrameSender) -> m.Done:
    session.input.set_held(request.keys, request.again)
    return m.Done()


def _type(request: m.Type, session: Session, _: FrameSender) -> m.Done:
    session.input.type(request.keys)
    return m.Done()


def _move_mouse(request: m.MoveMouse, session: Session, _: FrameSender) -> m.Done:
    session.input.move_mouse(request.dx_px, request.dy_px)
    return m.Done()


def _run(request: m.Run, session: Session, _: FrameSender) -> m.Done:
    session.clock.run(request.speed)
    return m.Done()


def _pause(_: m.Pause, session: Session, __: FrameSender) -> m.Done:
    session.clock.pause()
    return m.Done()


def _restart(request: m.Restart, session: Session, _: FrameSender) -> m.Done:
    session.restart(request.options, seed=request.seed)
    return m.Done()


_DOERS: Final[dict[type[m.Request], Callable[[Any, Session, FrameSender], m.AnyAnswer]]] = {
    m.Info: lambda _, session, __: m.InfoNow(session.info),
    m.Describe: lambda _, session, __: m.Facts(session.profile),
    m.Read: lambda request, session, _: m.ReadValue(session.read(request.name)),
    m.Snap: lambda request, session, _: pack_values(session.snapshot(request.names)),
    m.Examine: lambda request, session, _: m.Findings(session.examine(request.names)),
    m.ReadNumber: lambda request, session, _: m.ReadValue(session.read_number(request.where)),
    m.Write: _write,
    m.WriteNumber: _write_number,
    m.Grab: _grab,
    m.DoStep: _do_step,
    m.Held: lambda _, session, __: m.HeldKeys(tuple(sorted(session.input.held))),
    m.Hold: _hold,
    m.Type: _type,
    m.MoveMouse: _move_mouse,
    m.Time: lambda _, session, __: m.TimeState(session.clock.game_time_s, session.clock.speed),
    m.Run: _run,
    m.Pause: _pause,
    m.DoAdvance: lambda request, session, _: m.Advanced(
        session.clock.advance(request.seconds, deadline_s=request.deadline_s, speed=request.speed)
    ),
    m.Restart: _restart,
}
