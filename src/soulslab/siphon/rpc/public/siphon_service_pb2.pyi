"""Types of siphon_service_pb2.py. Written by scripts/public_protocol.py."""

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

class GetSiphonRequest(Message):
    attributeName: str
    def __init__(
        self,
        *,
        attributeName: str = ...,
    ) -> None: ...

class GetSiphonResponse(Message):
    success: bool
    message: str
    int_value: int
    float_value: float
    array_value: bytes
    bool_value: bool
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
        int_value: int = ...,
        float_value: float = ...,
        array_value: bytes = ...,
        bool_value: bool = ...,
    ) -> None: ...

class SetSiphonRequest(Message):
    attributeName: str
    int_value: int
    float_value: float
    array_value: bytes
    bool_value: bool
    def __init__(
        self,
        *,
        attributeName: str = ...,
        int_value: int = ...,
        float_value: float = ...,
        array_value: bytes = ...,
        bool_value: bool = ...,
    ) -> None: ...

class SetSiphonResponse(Message):
    success: bool
    message: str
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
    ) -> None: ...

class InputKeyTapRequest(Message):
    keys: Repeated
    hold_ms: int
    delay_ms: int
    def __init__(
        self,
        *,
        keys: Iterable[str] = ...,
        hold_ms: int = ...,
        delay_ms: int = ...,
    ) -> None: ...

class InputKeyTapResponse(Message):
    success: bool
    message: str
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
    ) -> None: ...

class InputKeyToggleRequest(Message):
    key: str
    toggle: bool
    def __init__(
        self,
        *,
        key: str = ...,
        toggle: bool = ...,
    ) -> None: ...

class InputKeyToggleResponse(Message):
    success: bool
    message: str
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
    ) -> None: ...

class MoveMouseRequest(Message):
    delta_x: int
    delta_y: int
    steps: int
    def __init__(
        self,
        *,
        delta_x: int = ...,
        delta_y: int = ...,
        steps: int = ...,
    ) -> None: ...

class MoveMouseResponse(Message):
    success: bool
    message: str
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
    ) -> None: ...

class CaptureFrameRequest(Message): ...

class CaptureFrameResponse(Message):
    frame: bytes
    width: int
    height: int
    success: bool
    message: str
    def __init__(
        self,
        *,
        frame: bytes = ...,
        width: int = ...,
        height: int = ...,
        success: bool = ...,
        message: str = ...,
    ) -> None: ...

class ExecuteCommandRequest(Message):
    command: str
    args: Repeated
    working_directory: str
    timeout_seconds: int
    capture_output: bool
    def __init__(
        self,
        *,
        command: str = ...,
        args: Iterable[str] = ...,
        working_directory: str = ...,
        timeout_seconds: int = ...,
        capture_output: bool = ...,
    ) -> None: ...

class ExecuteCommandResponse(Message):
    success: bool
    message: str
    exit_code: int
    stdout_output: str
    stderr_output: str
    execution_time_ms: int
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
        exit_code: int = ...,
        stdout_output: str = ...,
        stderr_output: str = ...,
        execution_time_ms: int = ...,
    ) -> None: ...

class ProcessAttributeProto(Message):
    name: str
    pattern: str
    offsets: Repeated
    type: str
    length: int
    method: str
    mask: int
    def __init__(
        self,
        *,
        name: str = ...,
        pattern: str = ...,
        offsets: Iterable[int] = ...,
        type: str = ...,
        length: int = ...,
        method: str = ...,
        mask: int = ...,
    ) -> None: ...

class SetProcessConfigRequest(Message):
    process_name: str
    process_window_name: str
    attributes: Repeated
    def __init__(
        self,
        *,
        process_name: str = ...,
        process_window_name: str = ...,
        attributes: Iterable[ProcessAttributeProto] = ...,
    ) -> None: ...

class SetProcessConfigResponse(Message):
    success: bool
    message: str
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
    ) -> None: ...

class InitializeMemoryRequest(Message): ...

class InitializeMemoryResponse(Message):
    success: bool
    message: str
    process_id: int
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
        process_id: int = ...,
    ) -> None: ...

class InitializeInputRequest(Message):
    window_name: str
    def __init__(
        self,
        *,
        window_name: str = ...,
    ) -> None: ...

class InitializeInputResponse(Message):
    success: bool
    message: str
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
    ) -> None: ...

class InitializeCaptureRequest(Message):
    window_name: str
    def __init__(
        self,
        *,
        window_name: str = ...,
    ) -> None: ...

class InitializeCaptureResponse(Message):
    success: bool
    message: str
    window_width: int
    window_height: int
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
        window_width: int = ...,
        window_height: int = ...,
    ) -> None: ...

class GetServerStatusRequest(Message): ...

class GetServerStatusResponse(Message):
    success: bool
    message: str
    memory_initialized: bool
    input_initialized: bool
    capture_initialized: bool
    config_set: bool
    process_name: str
    window_name: str
    process_id: int
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
        memory_initialized: bool = ...,
        input_initialized: bool = ...,
        capture_initialized: bool = ...,
        config_set: bool = ...,
        process_name: str = ...,
        window_name: str = ...,
        process_id: int = ...,
    ) -> None: ...

class StartRecordingRequest(Message):
    attribute_names: Repeated
    output_directory: str
    max_duration_seconds: int
    def __init__(
        self,
        *,
        attribute_names: Iterable[str] = ...,
        output_directory: str = ...,
        max_duration_seconds: int = ...,
    ) -> None: ...

class StartRecordingResponse(Message):
    success: bool
    message: str
    session_id: str
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
        session_id: str = ...,
    ) -> None: ...

class StopRecordingRequest(Message):
    session_id: str
    def __init__(
        self,
        *,
        session_id: str = ...,
    ) -> None: ...

class StopRecordingResponse(Message):
    success: bool
    message: str
    total_frames: int
    average_latency_ms: float
    dropped_frames: int
    actual_duration_seconds: float
    actual_fps: float
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
        total_frames: int = ...,
        average_latency_ms: float = ...,
        dropped_frames: int = ...,
        actual_duration_seconds: float = ...,
        actual_fps: float = ...,
    ) -> None: ...

class GetRecordingStatusRequest(Message):
    session_id: str
    def __init__(
        self,
        *,
        session_id: str = ...,
    ) -> None: ...

class GetRecordingStatusResponse(Message):
    success: bool
    message: str
    is_recording: bool
    current_frame: int
    elapsed_time_seconds: float
    current_latency_ms: float
    dropped_frames: int
    def __init__(
        self,
        *,
        success: bool = ...,
        message: str = ...,
        is_recording: bool = ...,
        current_frame: int = ...,
        elapsed_time_seconds: float = ...,
        current_latency_ms: float = ...,
        dropped_frames: int = ...,
    ) -> None: ...

class DownloadRecordingRequest(Message):
    session_id: str
    def __init__(
        self,
        *,
        session_id: str = ...,
    ) -> None: ...

class RecordingChunk(Message):
    data: bytes
    offset: int
    total_size: int
    is_final: bool
    filename: str
    def __init__(
        self,
        *,
        data: bytes = ...,
        offset: int = ...,
        total_size: int = ...,
        is_final: bool = ...,
        filename: str = ...,
    ) -> None: ...

class StreamFramesRequest(Message):
    format: str
    quality: int
    def __init__(
        self,
        *,
        format: str = ...,
        quality: int = ...,
    ) -> None: ...

class FrameData(Message):
    data: bytes
    timestamp_us: int
    width: int
    height: int
    frame_number: int
    format: str
    def __init__(
        self,
        *,
        data: bytes = ...,
        timestamp_us: int = ...,
        width: int = ...,
        height: int = ...,
        frame_number: int = ...,
        format: str = ...,
    ) -> None: ...
