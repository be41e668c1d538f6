"""Errors in transit: the gRPC status of each error, and raising the same error on the other side.

A failure contains the name of the class, the message and the fields; the other side creates an instance of the
class with this name. Errors that are not soulslab's, or that the other side does not know, arrive as `RemoteError`.
"""

from __future__ import annotations

from typing import Any, NoReturn

import grpc

from soulslab import errors
from soulslab.errors import RemoteError, SoulslabError
from soulslab.siphon.rpc.messages import FAILURE_KEY, Failure, decode
from soulslab.siphon.rpc.wire_encoding import UNSENDABLE, encode, make_decoder

_Code = grpc.StatusCode

#: Error classes by their status; other classes have the status of their nearest listed base class.
_CLASSES_BY_STATUS = {
    _Code.UNKNOWN: (errors.SoulslabError, errors.BenchmarkError, errors.SiphonError),
    _Code.INVALID_ARGUMENT: (
        errors.ConfigError,
        errors.EnvironmentUsageError,
        errors.LayoutError,
        errors.InvalidValueError,
        errors.WireError,
    ),
    _Code.FAILED_PRECONDITION: (
        errors.FileError,
        errors.DemonstrationError,
        errors.ReplayError,
        errors.DivergedError,
        errors.NoWinError,
        errors.TerminalError,
        errors.MissingDependencyError,
        errors.ProcessError,
        errors.MemoryAccessError,
        errors.PatternError,
        errors.AttributeVersionError,
        errors.UndecidedAttributeError,
        errors.SelfCheckError,
        errors.InputError,
        errors.DisplayError,
        errors.WindowError,
        errors.ClockError,
        errors.SessionStateError,
        errors.ScanError,
        errors.RecordingError,
        errors.FitError,
        errors.FleetError,
    ),
    _Code.ABORTED: (errors.ActorError, errors.ProcessExitedError, errors.ControlTakenError),
    _Code.NOT_FOUND: (
        errors.ProcessNotFoundError,
        errors.UnknownAttributeError,
        errors.EntityNotFoundError,
        errors.UnknownKeyError,
        errors.WindowNotFoundError,
    ),
    _Code.PERMISSION_DENIED: (errors.AttachDeniedError, errors.AntiCheatError, errors.ReadOnlyError),
    _Code.OUT_OF_RANGE: (errors.ImplausibleValueError,),
    _Code.DEADLINE_EXCEEDED: (errors.ClockStalledError, errors.WaitTimeoutError),
    _Code.INTERNAL: (errors.RemoteError,),
    _Code.UNAVAILABLE: (errors.ServerUnavailableError,),
    _Code.UNAUTHENTICATED: (errors.AccessRefusedError,),
}
STATUS: dict[type[SoulslabError], grpc.StatusCode] = {
    kind: code for code, kinds in _CLASSES_BY_STATUS.items() for kind in kinds
}

#: Longest status line, which is for debugging; the failure contains the whole message.
MAX_DETAILS = 400

_failure_decoder = make_decoder(Failure)


def status_of(error: SoulslabError) -> grpc.StatusCode:
    """Return the gRPC status of an error."""
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def classes_by_name() -> dict[str, type[SoulslabError]]:
    """Return the classes of `soulslab.errors` by their names."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, SoulslabError)]
    return {kind.__name__: kind for kind in kinds}


_CLASSES = classes_by_name()
_value_decoder = make_decoder(object)


def to_failure(error: SoulslabError) -> Failure:
    """Return an error as a message. A field that cannot be encoded is replaced by its `repr`."""
    kind = next(kind for kind in type(error).__mro__ if kind.__name__ in _CLASSES)
    fields = {name: _field(value) for name, value in vars(error).items() if name[0] != "_"}
    # Names of files and windows may not be valid Unicode.
    text = str(error).encode("utf-8", "replace").decode()
    return Failure(kind.__name__, text, fields)


def from_failure(failure: Failure) -> SoulslabError:
    """Return the error for a message. Raises `WireError` if a field is malformed."""
    kind = _CLASSES.get(failure.error)
    if kind is None:
        return RemoteError(f"{failure.error}: {failure.text}")
    error = kind.__new__(kind)
    error.args = (failure.text,)
    for name, value in failure.fields.items():
        # `args` is the message, which is given already.
        if name.isidentifier() and name[0] != "_" and name != "args":
            found = decode(_value_decoder, value)
            # msgpack decodes tuples as lists; errors have only tuples.
            setattr(error, name, tuple(found) if isinstance(found, list) else found)
    return error


def abort(context: grpc.ServicerContext, error: SoulslabError) -> NoReturn:
    """End a call with an error."""
    failure = to_failure(error)
    context.set_trailing_metadata(((FAILURE_KEY, encode(failure)),))
    context.abort(status_of(error), _one_line(failure.text))
    raise AssertionError("abort() raises")


def from_call(call: Any, address: str) -> SoulslabError:
    """Return the error for a failed call, a `grpc.RpcError` which is also the call."""
    for key, value in call.trailing_metadata() or ():
        if key == FAILURE_KEY:
            return from_failure(decode(_failure_decoder, value))
    code, details = call.code(), call.details()
    match code:
        case _Code.UNAVAILABLE | _Code.DEADLINE_EXCEEDED | _Code.CANCELLED:
            where, advice = f"no server answers at {address}", "start it, or check the address and whether it wants TLS"
            if "Hostname Verification Check failed" in (details or ""):  # gRPC has no code for it
                where = f"the certificate of the server at {address} is for another name"
                advice = "connect by a name or an IP address that the certificate contains"
            return errors.ServerUnavailableError(f"{where} ({details}); {advice}")
        case _Code.UNAUTHENTICATED | _Code.PERMISSION_DENIED:
            return errors.AccessRefusedError(f"the server at {address} refuses us: {details}")
        case _Code.UNIMPLEMENTED:
            return errors.WireError(f"what answers at {address} is not a soulslab server of this version: {details}")
        case _Code.RESOURCE_EXHAUSTED:
            return errors.WireError(f"the server at {address} cannot take this: {details}")
        case _:
            return RemoteError(f"the call to {address} failed with {code.name}: {details}")


def _field(value: object) -> bytes:
    try:
        return encode(value)
    except UNSENDABLE:
        return encode(repr(value))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_DETAILS else f"{line[: MAX_DETAILS - 3]}..."
