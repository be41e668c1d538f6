"""The messages equal the .proto file and those of pysiphon."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto
from pysiphon.generated import siphon_service_pb2 as public

from soulslab.siphon.rpc.public import siphon_service_pb2 as messages
from support.waiting import PATIENCE_S

SCRIPT = Path(__file__).parents[5] / "scripts" / "public_protocol.py"


def description_of(module):
    """Return the fields and calls of a module's messages, independent of their order."""
    file = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(file)
    fields = {
        (
            message.name,
            field.name,
            field.number,
            field.type,
            field.label,
            field.type_name,
            field.HasField("oneof_index"),
        )
        for message in file.message_type
        for field in message.field
    }
    calls = {
        (call.name, call.input_type, call.output_type, call.client_streaming, call.server_streaming)
        for service in file.service
        for call in service.method
    }
    return file.package, file.syntax, fields, calls


def test_the_generated_module_is_up_to_date():
    spec = spec_from_file_location("public_protocol", SCRIPT)
    script = module_from_spec(spec)
    spec.loader.exec_module(script)
    for path, data in script.generate().items():
        assert path.read_bytes() == data, f"run python {SCRIPT.name}"


def test_every_name_number_and_type_is_that_of_pysiphon():
    assert description_of(messages) == description_of(public)
    assert len(description_of(messages)[3]) == 17


def test_a_public_client_can_live_in_the_same_process_in_any_order():
    ours, theirs = "soulslab.siphon.rpc.public.siphon_service_pb2", "pysiphon.generated.siphon_service_pb2"
    for first, second in ((ours, theirs), (theirs, ours)):
        subprocess.run([sys.executable, "-c", f"import {first}, {second}"], check=True, timeout=PATIENCE_S)
