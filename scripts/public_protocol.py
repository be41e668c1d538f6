"""Write ``rpc/public/siphon_service_pb2.*``; run it after a change of ``siphon_service.proto``.

The code that protoc generates registers the messages in protobuf's global pool, where they would conflict with the
messages of a public client in the same process, and it rejects runtimes that are older than the compiler. Instead, this
script stores the compiled description in a file, and protobuf creates the classes from it in a separate pool.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import grpc_tools
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

FOLDER = Path(__file__).resolve().parent.parent / "src" / "soulslab" / "siphon" / "rpc" / "public"
PROTO = FOLDER / "siphon_service.proto"
MODULE = FOLDER / "siphon_service_pb2.py"
STUB = FOLDER / "siphon_service_pb2.pyi"
DESCRIPTION = FOLDER / "siphon_service_pb2.binpb"

F = FieldDescriptorProto
TYPES = {
    F.TYPE_STRING: "str",
    F.TYPE_BYTES: "bytes",
    F.TYPE_BOOL: "bool",
    F.TYPE_FLOAT: "float",
    F.TYPE_DOUBLE: "float",
    F.TYPE_INT32: "int",
    F.TYPE_INT64: "int",
    F.TYPE_UINT32: "int",
    F.TYPE_UINT64: "int",
}
MODULE_TEXT = '''"""The messages of the public Siphon protocol. Written by scripts/public_protocol.py."""

from pathlib import Path

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as Message
from google.protobuf.message_factory import GetMessageClass

DESCRIPTOR = DescriptorPool().AddSerializedFile(Path(__file__).with_suffix(".binpb").read_bytes())

# siphon_service_pb2.pyi lists the classes.
globals().update({name: GetMessageClass(kind) for name, kind in DESCRIPTOR.message_types_by_name.items()})
'''

STUB_HEAD = '''"""Types of siphon_service_pb2.py. Written by scripts/public_protocol.py."""

from collections.abc import Iterable
from typing import Any, Protocol, Self

DESCRIPTOR: Any

class Repeated(Protocol):
    def __iter__(self) -> Any: ...
    def __len__(self) -> int: ...
    def extend(self, values: Iterable[Any]) -> None: ...
    def add(self) -> Any: ...

class Message:
    @classmethod
    def FromString(cls, data: bytes) -> Self: ...
    def SerializeToString(self) -> bytes: ...
    def WhichOneof(self, name: str) -> str | None: ...
'''


def generate() -> dict[Path, bytes]:
    """Return the content of the generated files."""
    with tempfile.TemporaryDirectory() as folder:
        compiled = Path(folder) / "compiled"
        include = Path(grpc_tools.__file__).parent / "_proto"
        status = protoc.main(
            ["protoc", f"-I{FOLDER}", f"-I{include}", f"--descriptor_set_out={compiled}", str(PROTO)],
        )
        if status:
            sys.exit(f"protoc rejected {PROTO.name}")
        (file,) = FileDescriptorSet.FromString(compiled.read_bytes()).file
    for message in file.message_type:
        for field in message.field:
            field.ClearField("json_name")
    stub = STUB_HEAD + "".join(_stub(message) for message in file.message_type)
    description = file.SerializeToString(deterministic=True)
    return {MODULE: MODULE_TEXT.encode(), STUB: stub.encode(), DESCRIPTION: description}


def _stub(message: DescriptorProto) -> str:
    """Return the type definition of one message."""
    fields = [(field.name, _type(field), field.label == F.LABEL_REPEATED) for field in message.field]
    if not fields:
        return f"\nclass {message.name}(Message): ...\n"
    lines = [f"    {name}: {'Repeated' if repeated else kind}" for name, kind, repeated in fields]
    arguments = [
        f"        {name}: {f'Iterable[{kind}]' if repeated else kind} = ...," for name, kind, repeated in fields
    ]
    head = ["    def __init__(", "        self,", "        *,"]
    return "\n".join([f"\nclass {message.name}(Message):", *lines, *head, *arguments, "    ) -> None: ...", ""])


def _type(field: FieldDescriptorProto) -> str:
    """Return the Python type of one element of a field."""
    return field.type_name.rpartition(".")[2] if field.type == F.TYPE_MESSAGE else TYPES[field.type]


if __name__ == "__main__":
    for path, data in generate().items():
        path.write_bytes(data)
