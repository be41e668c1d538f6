"""The messages of our RPC, version 1: requests of clients and answers of servers.

The service is ``soulslab.siphon.v1.Session``. A client opens the stream ``Attach``: its first message is a `Hello`, the
answer a `Welcome`. Then it sends one `Call` after another, each with one `Answer`. Every request can also be sent as a
unary call with the request's name, with the id of the client in the metadata; without an id only reading is permitted.
``Watch`` streams observations of the game to a client that sends nothing more.

All messages are msgpack arrays; see `soulslab.siphon.rpc.wire_encoding` for their contents.
"""

from __future__ import annotations

from typing import Annotated, Any, Generic, Literal, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Meta

from soulslab.errors import WireError
from soulslab.siphon.attributes.alternatives import Finding
from soulslab.siphon.attributes.pointer_chains import ChainNumber, Number
from soulslab.siphon.capture import NATIVE, FrameFormat
from soulslab.siphon.clock import Advance
from soulslab.siphon.pad import Pad
from soulslab.siphon.profile import Profile, Value
from soulslab.siphon.session import SessionInfo, Step

VERSION = 9
SERVICE = "soulslab.siphon.v1.Session"
UNREADABLE = -1
MAX_REQUEST_BYTES = 1 << 20
MAX_ANSWER_BYTES = 64 << 20

#: Keys of the metadata of a call, and of the trailing metadata of an error.
TOKEN_KEY = "authorization"  # noqa: S105  (the name of the field, not a token)
CLIENT_KEY = "soulslab-client"
FAILURE_KEY = "soulslab-failure-bin"

R = TypeVar("R")
T = TypeVar("T")

FrameEncoding: TypeAlias = Literal["raw", "jpeg"]
Seconds: TypeAlias = Annotated[float, Meta(ge=0.0, le=3600.0)]
Keys: TypeAlias = Annotated[tuple[Annotated[str, Meta(max_length=64)], ...], Meta(max_length=256)]
Speed: TypeAlias = Annotated[float, Meta(ge=0.001, le=1000.0)]
OptionText: TypeAlias = Annotated[str, Meta(max_length=4096, pattern=r"^[^\x00]*$")]
Pixels: TypeAlias = Annotated[int, Meta(ge=-(2**15), le=2**15)]


class Message(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Base class of all messages."""


class SharedMemory(Message, frozen=True):
    """Memory for frames, by process id and descriptor in the client; the server verifies its start, `nonce`."""

    pid: Annotated[int, Meta(gt=0)]
    fd: Annotated[int, Meta(ge=0)]
    size: Annotated[int, Meta(gt=0)]
    nonce: Annotated[bytes, Meta(min_length=16, max_length=16)]


class Hello(Message, frozen=True):
    """Opens an attachment.

    `name` is the client's for people: ``alice@desk, process 4242``. `frames` is the encoding of frames that do not go
    through `memory`, which is given if the client may be on the same machine.
    """

    version: int
    name: Annotated[str, Meta(max_length=200)]
    frames: FrameEncoding = "raw"
    jpeg_quality: Annotated[int, Meta(ge=1, le=100)] = 90
    memory: SharedMemory | None = None


class Welcome(Message, frozen=True):
    """Answers a `Hello`.

    `client_id` is a secret of the client, for the metadata of unary calls. Without a running game, for example after
    its end, `info` is None. `proof` is the second 16 bytes of the client's shared memory; empty if the
    server cannot see it, and then frames are sent inside the messages.
    """

    version: int
    client_id: str
    profile: Profile
    info: SessionInfo | None
    proof: bytes


class AnyVersion(msgspec.Struct, frozen=True, array_like=True):
    """The part of a `Hello` and a `Welcome` that all versions share."""

    version: int


ANY_VERSION = msgspec.msgpack.Decoder(AnyVersion)


class Values(Message, frozen=True):
    """Attributes that were read together; see `Snapshot`."""

    values: dict[str, Value]
    game_time_s: float
    wall_time_s: float


class FrameData(Message, frozen=True):
    """A frame (`Frame`): (H, W, 3) or (H, W) pixels, in the shared memory after its two nonces, or in `data`."""

    shape: Annotated[tuple[Annotated[int, Meta(ge=1, le=2**15)], ...], Meta(min_length=2, max_length=3)]
    encoding: FrameEncoding | Literal["shared"]
    data: bytearray
    game_time_s: float
    wall_time_s: float


class Stepped(Message, frozen=True):
    """Result of a step, or one message of a `Watch`; see `StepResult`."""

    advance: Advance
    values: Values
    frame: FrameData | None


class TimeState(Message, frozen=True):
    """State of the game's clock."""

    game_time_s: float
    speed: float


class Request(Message, Generic[R], frozen=True):
    """Base class of all requests; `R` is the type of the result."""

    @classmethod
    def result_type(cls) -> Any:
        """Return `R`."""
        return get_args(cls.__orig_bases__[0])[0]  # type: ignore[attr-defined]  # set by the class statement


class Info(Request[SessionInfo], frozen=True, tag="info"):
    """`Session.info`."""


class Describe(Request[Profile], frozen=True, tag="profile"):
    """`Session.profile`."""


class Read(Request[Value], frozen=True, tag="read"):
    """`Session.read`."""

    name: str


class Snap(Request[Values], frozen=True, tag="snapshot"):
    """`Session.snapshot`."""

    names: tuple[str, ...] | None


class Examine(Request[dict[str, tuple[Finding, ...]]], frozen=True, tag="examine"):
    """`Session.examine`."""

    names: tuple[str, ...] | None


class ReadNumber(Request[Number], frozen=True, tag="read_number"):
    """`Session.read_number`."""

    where: ChainNumber


class WriteNumber(Request[None], frozen=True, tag="write_number"):
    """`Session.write_number`."""

    where: ChainNumber
    value: Value


class Write(Request[None], frozen=True, tag="write"):
    """`Session.write`."""

    values: dict[str, Value]


class Grab(Request[FrameData], frozen=True, tag="capture"):
    """`Session.capture`."""

    frame_format: FrameFormat = NATIVE


class DoStep(Request[Stepped], frozen=True, tag="step"):
    """`Session.step`. A step that only reads needs no control."""

    step: Step


class Held(Request[frozenset[str]], frozen=True, tag="held"):
    """`Input.held`."""


class Hold(Request[None], frozen=True, tag="hold"):
    """`Input.set_held`."""

    keys: Keys
    again: Keys = ()


class Type(Request[None], frozen=True, tag="type"):
    """`Input.type`."""

    keys: Keys


class MoveMouse(Request[None], frozen=True, tag="mouse"):
    """`Input.move_mouse`."""

    dx_px: Pixels
    dy_px: Pixels


class SetPad(Request[None], frozen=True, tag="pad"):
    """`Input.set_pad`."""

    pad: Pad


class Time(Request[TimeState], frozen=True, tag="time"):
    """`Clock.game_time_s` and `Clock.speed`."""


class Run(Request[None], frozen=True, tag="run"):
    """`Clock.run`."""

    speed: Speed


class Pause(Request[None], frozen=True, tag="pause"):
    """`Clock.pause`."""


class DoAdvance(Request[Advance], frozen=True, tag="advance"):
    """`Clock.advance`."""

    seconds: Seconds
    deadline_s: Seconds
    speed: Speed | None = None


class Restart(Request[None], frozen=True, tag="restart"):
    """`Session.restart`."""

    options: Annotated[dict[OptionText, OptionText], Meta(max_length=256)] | None
    seed: Annotated[int, Meta(ge=0, le=2**32 - 1)] | None = None


class Leave(Request[None], frozen=True, tag="leave"):
    """Ends the attachment: the answer comes once keys are released; the game stays."""


AnyRequest: TypeAlias = (
    Info | Describe | Read | Snap | Examine | ReadNumber | Write | WriteNumber | Grab | DoStep | Held | Hold | Type
    | MoveMouse | SetPad | Time | Run | Pause | DoAdvance | Restart | Leave
)  # fmt: skip


Query: TypeAlias = Info | Describe | Read | Snap | Examine | ReadNumber | Grab | Held | Time | Leave
"""Requests that do not change the game, so that several clients at a time may send them."""


class Call(Message, frozen=True):
    """A numbered request on the stream; refused if other clients keep the game busy for longer than `wait_s`."""

    number: int
    wait_s: Seconds
    request: AnyRequest


class Watch(Message, frozen=True):
    """Requests a stream of `Stepped` at a rate of wall time; some are skipped if the client is slower."""

    rate_hz: Annotated[float, Meta(ge=0.001, le=1000.0)]
    attributes: tuple[str, ...] | None = None
    frame: FrameFormat | None = None
    frames: FrameEncoding = "raw"
    jpeg_quality: Annotated[int, Meta(ge=1, le=100)] = 90


class Failure(Message, frozen=True):
    """The request failed: name of the class in `soulslab.errors`, message, and fields of the error, each as msgpack."""

    error: str
    text: str
    fields: dict[str, bytes]


class Answer(Message, frozen=True):
    """The answer to a `Call`: the encoded result or a failure; `UNREADABLE` if the call could not be decoded."""

    number: int
    failure: Failure | None
    result: msgspec.Raw = msgspec.Raw(b"\xc0")


REQUESTS: dict[str, type[Request[Any]]] = {kind.__name__: kind for kind in get_args(AnyRequest) if kind is not Leave}
"""The requests that are also unary calls, by the name of the method."""


def decode(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    """Decode a received message. Raises `WireError` if it is malformed."""
    try:
        return decoder.decode(data)
    except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"a message is malformed: {error}") from error


def check_version(version: int, whose: str) -> None:
    """Raise `WireError` if the other side (`whose`: ``client`` or ``server``) has another protocol version."""
    if version != VERSION:
        older = f"the {whose}" if version < VERSION else f"this {'client' if whose == 'server' else 'server'}"
        raise WireError(f"the {whose} speaks version {version} of {SERVICE}, and here it is {VERSION}; update {older}")
