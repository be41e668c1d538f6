"""Requests of the public protocol that are nearly valid, extreme, or malformed."""

import random

from soulslab.siphon.rpc.public import siphon_service_pb2 as messages

SERVICE_DESCRIPTOR = messages.DESCRIPTOR.services_by_name["SiphonService"]
CALLS = tuple(method.name for method in SERVICE_DESCRIPTOR.methods)
TEXTS = (
    "",
    "hp",
    "x",
    "name",
    "W",
    "LEFT",
    "toy",
    "Toy",
    "jpeg",
    "raw",
    "dll",
    "int",
    "array",
    "48 8B 05 ??",
    "/",
    "\0",
)
NUMBERS = (0, 1, -1, 2, 30, 100, 255, 2**31 - 1, -(2**31), 2**32 - 1, 2**63, 2**64 - 1)
STARTERS = ("StartRecording", "InitializeMemory", "InitializeInput", "InitializeCapture", "SetProcessConfig")


def request_of(call):
    return getattr(messages, SERVICE_DESCRIPTOR.methods_by_name[call].input_type.name)


def fill(message, rng, depth=0):
    """Fill a message with extreme or nearly valid values."""
    for field in message.DESCRIPTOR.fields:
        if rng.random() < 0.3:
            continue
        many = field.is_repeated
        for _ in range(rng.randrange(4) if many else 1):
            if field.message_type is not None:
                fill(getattr(message, field.name).add(), rng, depth + 1)
                continue
            value = value_for(field, rng)
            try:
                if many:
                    getattr(message, field.name).append(value)
                else:
                    setattr(message, field.name, value)
            except ValueError:  # out of the range of its type
                continue
    return message


def value_for(field, rng):
    if field.cpp_type == field.CPPTYPE_STRING:
        text = rng.choice(TEXTS) if rng.random() < 0.9 else "x" * rng.randrange(3000)
        return text.encode() if field.type == field.TYPE_BYTES else text
    if field.cpp_type == field.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return rng.choice([0.0, 1.5, -1e30, float("nan"), float("inf")])
    return rng.choice(NUMBERS)


def mutated(data, rng):
    """Change some bytes."""
    data = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0:
                data[place:place] = rng.randbytes(rng.randrange(1, 5))
            case 1:
                del data[place : place + rng.randrange(1, 5)]
            case 2 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 3:
                data[place:] = data[: rng.randrange(len(data) + 1)]
            case _:
                del data[place:]
    return bytes(data)


def malformed(n, seed):
    """Yield calls and requests: a third with filled values, the others with changed bytes."""
    rng = random.Random(seed)  # noqa: S311  (no secret)
    for i in range(n):
        call = CALLS[i % len(CALLS)]
        # Calls that open something are slow, so there are fewer of them.
        if call in STARTERS and rng.random() < 0.7:
            call = "GetAttribute"
        data = fill(request_of(call)(), rng).SerializeToString()
        yield call, data if rng.random() < 0.33 else mutated(data, rng)
