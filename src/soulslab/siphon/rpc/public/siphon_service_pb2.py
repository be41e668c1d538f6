"""The messages of the public Siphon protocol. Written by scripts/public_protocol.py."""

from pathlib import Path

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as Message
from google.protobuf.message_factory import GetMessageClass

DESCRIPTOR = DescriptorPool().AddSerializedFile(Path(__file__).with_suffix(".binpb").read_bytes())

# siphon_service_pb2.pyi lists the classes.
globals().update({name: GetMessageClass(kind) for name, kind in DESCRIPTOR.message_types_by_name.items()})
