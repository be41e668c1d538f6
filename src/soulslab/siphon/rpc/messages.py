"""The messages of our RPC, version 1: what a client asks, and what a server answers.

The service is ``soulslab.siphon.v1.Session``. A client opens the stream ``Attach``: its first message is a `Hello`, the
answer a `Welcome`. Then it sends one `Call` after another, and each gets one `Answer`. Every request can also be sent
as a unary call of its own name, with the id of the client in the metadata; without an id one may only look. ``Watch``
streams looks at the game to a client that sends nothing more.

All are msgpack arrays, see `soulslab.siphon.rpc.wire_encoding` for what they hold.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Meta

from soulslab.errors import WireError
from soulslab.siphon.attributes.chain_number import ChainNumber
from soulslab.siphon.attributes.examination import Finding
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.clock import Advance
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.session import SessionInfo, Step

VERSION = 7
SERVICE = "soulslab.siphon.v1.Session"
UNREADABLE = -1
MAX_REQUEST_BYTES = 1 << 20
MAX_ANSWER_BYTES = 64 << 20

#: Keys of the metadata of a call, and of what follows an error.
TOKEN_KEY = "authorization"  # noqa: S105  (the name of the field, not a token)
CLIENT_KEY = "soulslab-client"
FAILURE_KEY = "soulslab-failure-bin"

T = TypeVar("T")

FrameEncoding: TypeAlias = Literal["raw", "jpeg"]
Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=3600.0)]
Keys: TypeAlias = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=256)]
Speed: TypeAlias = Annotated[float, Meta(ge=0.001, le=1000.0)]
OptionText: TypeAlias = Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00]*$")]
Pixels: TypeAlias = Annotated[int, Meta(ge=-(2**15), le=2**15)]


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What all messages share."""


# --- attaching ----------------------------------------------------------------------------------------------


class SharedMemory(Message, frozen=True):
    """Anonymous memory that a client offers for frames.

    Attributes:
        pid: Of the client.
        fd: The memory, among the client's descriptors.
        size: Its bytes.
        nonce: What its first bytes are, so that the server knows that it found the right one.
    """

    pid: Annotated[int, Meta(gt=0)]
    fd: Annotated[int, Meta(ge=0)]
    size: Annotated[int, Meta(gt=0)]
    nonce: Annotated[bytes, Meta(min_length=16, max_length=16)]


class Hello(Message, frozen=True):
    """Opens an attachment.

    Attributes:
        version: Of these messages.
        name: Who the client is, for people: ``alice@desk, process 4242``.
        frames: How frames are sent that do not go through shared memory.
        jpeg_quality: Of frames that are sent as JPEG.
        memory: For frames, if the client hopes to be on the same machine.
    """

    version: int
    name: Annotated[str, Meta(max_length=200)]
    frames: FrameEncoding = "raw"
    jpeg_quality: Annotated[int, Meta(ge=1, le=100)] = 90
    memory: SharedMemory | None = None


class AnyHello(msgspec.Struct, frozen=True, array_like=True):
    """The part of a `Hello` that all versions share."""

    version: int


class Welcome(Message, frozen=True):
    """Answers a `Hello`.

    Attributes:
        version: Of these messages.
        client_id: For the metadata of unary calls; it is a secret of the client.
        profile: The game as data.
        info: What the session is attached to; None if it cannot be told, as of a game that has ended.
        proof: The second 16 bytes of the client's shared memory, which proves that the server can see it; empty if it
            cannot, and frames travel inside the messages.
    """

    version: int
    client_id: str
    profile: Profile
    info: SessionInfo | None
    proof: bytes


class AnyWelcome(msgspec.Struct, frozen=True, array_like=True):
    """The part of a `Welcome` that all versions share."""

    version: int


# --- requests -----------------------------------------------------------------------------------------------


class Request(Message, frozen=True):
    """What all requests share.

    Attributes:
        controls: It changes the game, so that only one client at a time may send it.
    """

    controls: ClassVar[bool] = True


class Info(Request, frozen=True, tag="info"):
    """`Session.info`: gives `InfoNow`."""

    controls: ClassVar[bool] = False


class Describe(Request, frozen=True, tag="profile"):
    """`Session.profile`: gives `Facts`."""

    controls: ClassVar[bool] = False


class Read(Request, frozen=True, tag="read"):
    """`Session.read`: gives `ReadValue`."""

    controls: ClassVar[bool] = False
    name: str


class Snap(Request, frozen=True, tag="snapshot"):
    """`Session.snapshot`: gives `Values`."""

    controls: ClassVar[bool] = False
    names: tuple[str, ...] | None


class Examine(Request, frozen=True, tag="examine"):
    """`Session.examine`: gives `Findings`."""

    controls: ClassVar[bool] = False
    names: tuple[str, ...] | None


class ReadNumber(Request, frozen=True, tag="read_number"):
    """`Session.read_number`: gives `ReadValue`."""

    controls: ClassVar[bool] = False
    where: ChainNumber


class WriteNumber(Request, frozen=True, tag="write_number"):
    """`Session.write_number`: gives `Done`."""

    where: ChainNumber
    value: Value


class Write(Request, frozen=True, tag="write"):
    """`Session.write`: gives `Done`."""

    values: dict[str, Value]


class Grab(Request, frozen=True, tag="capture"):
    """`Session.capture`: gives `FrameData`."""

    controls: ClassVar[bool] = False
    frame_format: FrameFormat = NATIVE


class DoStep(Request, frozen=True, tag="step"):
    """`Session.step`: gives `Stepped`. One that does nothing but look does not control."""

    step: Step


class Held(Request, frozen=True, tag="held"):
    """`Input.held`: gives `HeldKeys`."""

    controls: ClassVar[bool] = False


class Hold(Request, frozen=True, tag="hold"):
    """`Input.set_held`: gives `Done`."""

    keys: Keys
    again: Keys = ()


class Type(Request, frozen=True, tag="type"):
    """`Input.type`: gives `Done`."""

    keys: Keys


class MoveMouse(Request, frozen=True, tag="mouse"):
    """`Input.move_mouse`: gives `Done`."""

    dx_px: Pixels
    dy_px: Pixels


class Time(Request, frozen=True, tag="time"):
    """`Clock.game_time_s` and `Clock.speed`: gives `TimeState`."""

    controls: ClassVar[bool] = False


class Run(Request, frozen=True, tag="run"):
    """`Clock.run`: gives `Done`."""

    speed: Speed


class Pause(Request, frozen=True, tag="pause"):
    """`Clock.pause`: gives `Done`."""


class DoAdvance(Request, frozen=True, tag="advance"):
    """`Clock.advance`: gives `Advanced`."""

    seconds: Seconds
    deadline_s: Seconds
    speed: Speed | None = None


class Restart(Request, frozen=True, tag="restart"):
    """`Session.restart`: gives `Done`."""

    options: Annotated[dict[OptionText, OptionText], Meta(max_length=256)] | None
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None


class Leave(Request, frozen=True, tag="leave"):
    """Ends the attachment: gives `Done` once keys are released; the game stays."""

    controls: ClassVar[bool] = False


AnyRequest: TypeAlias = (
    Info | Describe | Read | Snap | Examine | ReadNumber | Write | WriteNumber | Grab | DoStep | Held | Hold | Type
    | MoveMouse | Time | Run | Pause | DoAdvance | Restart | Leave
)  # fmt: skip


class Call(Message, frozen=True):
    """A request on the stream.

    Attributes:
        number: The answer carries it, too.
        wait_s: How long the client waits for the answer: if other clients keep the game busy for longer, the request
            is refused.
        request: What is asked.
    """

    number: int
    wait_s: Seconds
    request: AnyRequest


class Watch(Message, frozen=True):
    """Asks for a stream of `Look`.

    Attributes:
        rate_hz: Looks per second of wall time, 0.001 to 1000; some are left out where the client cannot follow.
        attributes: What to read; None for all.
        frame: What picture to take; None for none.
        frames: How pictures travel.
        jpeg_quality: Of pictures that are sent as JPEG.
    """

    rate_hz: Annotated[float, Meta(ge=0.001, le=1000.0)]
    attributes: tuple[str, ...] | None = None
    frame: FrameFormat | None = None
    frames: FrameEncoding = "raw"
    jpeg_quality: Annotated[int, Meta(ge=1, le=100)] = 90


# --- answers ------------------------------------------------------------------------------------------------


class Done(Message, frozen=True, tag="done"):
    """It was done, and there is nothing to tell."""


class Failure(Message, frozen=True, tag="failure"):
    """It failed.

    Attributes:
        error: Name of the class, in `soulslab.errors`.
        text: Its message.
        fields: Its fields, each as msgpack.
    """

    error: str
    text: str
    fields: dict[str, bytes]


class InfoNow(Message, frozen=True, tag="info"):
    """What the session is attached to."""

    info: SessionInfo


class Facts(Message, frozen=True, tag="profile"):
    """The game as data."""

    profile: Profile


class ReadValue(Message, frozen=True, tag="value"):
    """An attribute."""

    value: Value


class Values(Message, frozen=True, tag="values"):
    """Attributes that were read together; see `Snapshot`."""

    values: dict[str, Value]
    game_time_s: float
    wall_time_s: float


class Findings(Message, frozen=True, tag="findings"):
    """What each way to attributes leads to; see `Session.examine`."""

    findings: dict[str, tuple[Finding, ...]]


class FrameData(Message, frozen=True, tag="frame"):
    """A picture; see `Frame`.

    Attributes:
        shape: (H, W, 3) or (H, W).
        encoding: How it comes: as it is in the shared memory, behind its two nonces, or in `data`.
        data: The picture; empty with shared memory.
    """

    shape: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**15)], ...], Meta(min_length=2, max_length=3)]
    encoding: FrameEncoding | Literal["shared"]
    data: bytearray
    game_time_s: float
    wall_time_s: float


class Stepped(Message, frozen=True, tag="stepped"):
    """What a step came to; see `StepResult`."""

    advance: Advance
    values: Values
    frame: FrameData | None


class HeldKeys(Message, frozen=True, tag="held"):
    """The keys that are down, sorted."""

    keys: tuple[str, ...]


class TimeState(Message, frozen=True, tag="time"):
    """What time it is in the game."""

    game_time_s: float
    speed: float


class Advanced(Message, frozen=True, tag="advanced"):
    """How an advance went."""

    advance: Advance


class Look(Message, frozen=True, tag="look"):
    """One message of a `Watch`."""

    values: Values
    frame: FrameData | None


AnyAnswer: TypeAlias = (
    Done
    | Failure
    | InfoNow
    | Facts
    | ReadValue
    | Values
    | Findings
    | FrameData
    | Stepped
    | HeldKeys
    | TimeState
    | Advanced
    | Look
)


class Answer(Message, frozen=True):
    """The answer to a `Call`.

    Attributes:
        number: Of the call; `UNREADABLE` if it could not be made out.
        answer: What it came to.
    """

    number: int
    answer: AnyAnswer


REQUESTS: dict[str, type[Request]] = {kind.__name__: kind for kind in get_args(AnyRequest) if kind is not Leave}
"""The requests that are unary calls, too, by the name of the method."""


def decode(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    """Return a message that came over the wire.

    Raises:
        WireError: It is malformed.
    """
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"a message is malformed: {error}") from error


def check_version(version: int, whose: str) -> None:
    """Raise `WireError` if the other side speaks another version.

    Args:
        version: The one it speaks.
        whose: Who it is: ``client`` or ``server``.
    """
    if version != VERSION:
        older = f"the {whose}" if version < VERSION else f"this {'client' if whose == 'server' else 'server'}"
        raise WireError(f"the {whose} speaks version {version} of {SERVICE}, and here it is {VERSION}; update {older}")
