"""A public Siphon server with the toy game, and a client for the messages of this project."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc
import msgspec

from soulslab.siphon.recording.recorder import RecordingOptions
from soulslab.siphon.rpc.public import siphon_service_pb2 as messages
from soulslab.siphon.rpc.public.service import SERVICE, PublicOptions, PublicService
from soulslab.testing.fake_session import FakeSession
from support.waiting import PATIENCE_S

PATTERN = "48 8B 05 ?? ?? ?? ?? 48 85 C0"
TYPES = {
    "hp": "int",
    "x": "float",
    "y": "float",
    "ticks": "int",
    "level": "int",
    "is_hurt": "bool",
    "name": "array",
    "velocity": "array",
}
TOY_TOML = '[process_info]\nname = "toy"\nwindow_name = "Toy"\n' + "".join(
    f'[attributes.{name}]\npattern = "{PATTERN}"\noffsets = [16, {4 * i}]\ntype = "{kind}"\nlength = 8\n'
    for i, (name, kind) in enumerate(TYPES.items())
)


class Toys:
    """Opens toy games, and keeps their sessions.

    Attributes:
        sessions: All opened sessions.
        asked: Profile and options of each session.
        error: Error that the next call raises; None for no error.
    """

    def __init__(self):
        self.sessions = []
        self.asked = []
        self.error = None

    def open(self, profile, options):
        if self.error is not None:
            raise self.error
        self.asked.append((profile, options))
        self.sessions.append(FakeSession(options))
        return self.sessions[-1]

    @property
    def toy(self):
        return self.sessions[-1].toy


class Client:
    """Calls the service with the messages of this project: ``client("GetAttribute", attributeName="hp")``."""

    def __init__(self, channel):
        self._channel = channel

    def __call__(self, call, request=None, /, timeout=PATIENCE_S, **fields):
        return self.start(call, request, timeout=timeout, **fields)

    def start(self, call, request=None, /, timeout=PATIENCE_S, **fields):
        descriptor = messages.DESCRIPTOR.services_by_name["SiphonService"].methods_by_name[call]
        request = request or getattr(messages, descriptor.input_type.name)(**fields)
        make = self._channel.unary_stream if descriptor.server_streaming else self._channel.unary_unary
        method = make(
            f"/{SERVICE}/{call}",
            request_serializer=lambda message: message if isinstance(message, bytes) else message.SerializeToString(),
            response_deserializer=getattr(messages, descriptor.output_type.name).FromString,
        )
        return method(request, timeout=timeout)

    def configure(self, attributes=TYPES, **fields):
        request = messages.SetProcessConfigRequest(**{"process_name": "toy", "process_window_name": "Toy", **fields})
        for name, kind in attributes.items():
            attribute = request.attributes.add()
            attribute.name, attribute.pattern, attribute.type, attribute.length = name, PATTERN, kind, 8
            attribute.offsets.extend([16, 4])
            attribute.mask = 0xFF
        return self("SetProcessConfig", request)

    def initialise(self):
        for answer in (
            self.configure(),
            self("InitializeMemory"),
            self("InitializeInput"),
            self("InitializeCapture"),
        ):
            assert answer.success, answer.message


class Running:
    """A running server.

    Attributes:
        served: Session of the server.
        toys: Opens its games.
        service: The service.
        port: Port of the server.
    """

    def __init__(self, served, toys, service, port):
        self.served = served
        self.toys = toys
        self.service = service
        self.port = port

    @contextmanager
    def client(self):
        # A separate pool; otherwise the clients of a process share a connection.
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_receive_message_length", 1 << 27)]
        with grpc.insecure_channel(f"127.0.0.1:{self.port}", options=options) as channel:
            yield Client(channel)


@contextmanager
def public_server(folder: Path, *, served=None, **options):
    """A context with a public service for toy games on a free port; `served` is the session of the server."""
    toys = Toys()
    settings = {
        "open_session": toys.open,
        "recordings": folder / "recordings",
        "recording": RecordingOptions(rate_hz=100),
        "stream_hz": 200.0,
        "keys_after_s": 0.0,
        "recordings_after_s": 0.0,
        **options,
    }
    with (
        served or FakeSession() as session,
        PublicService(PublicOptions(**settings)) as service,
        ThreadPoolExecutor(16) as pool,
    ):
        server = grpc.server(pool)
        server.add_generic_rpc_handlers(tuple(service.handlers(session)))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield Running(session, toys, service, port)
        finally:
            server.stop(None).wait()


def with_entity(profile):
    """Return a profile with the entity that ``method = "dll"`` needs."""
    entity = {
        "base": next(iter(profile.bases)),
        "begin": [0x10],
        "end": [0x18],
        "id_offsets": [0x20],
        "id": 7,
        "source": "made up",
    }
    return msgspec.convert({**msgspec.to_builtins(profile), "entities": {"target": entity}}, type(profile))
