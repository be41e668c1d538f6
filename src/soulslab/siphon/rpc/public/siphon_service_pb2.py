"""The messages of the public Siphon protocol. Written by scripts/public_protocol.py."""

from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import Message as Message
from google.protobuf.message_factory import GetMessageClass

_DESCRIPTION = (
    b'\n\x14siphon_service.proto\x12\x0esiphon_service")\n\x10GetSip'
    b'honRequest\x12\x15\n\rattributeName\x18\x01 \x01(\t"\x97\x01\n\x11GetSiphonR'
    b'esponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01(\t\x12\x13\n\tint'
    b'_value\x18\x03 \x01(\x05H\x00\x12\x15\n\x0bfloat_value\x18\x04 \x01(\x02H\x00\x12\x15\n\x0barray_v'
    b'alue\x18\x05 \x01(\x0cH\x00\x12\x14\n\nbool_value\x18\x06 \x01(\x08H\x00B\x07\n\x05value"\x8b\x01\n\x10'
    b'SetSiphonRequest\x12\x15\n\rattributeName\x18\x01 \x01(\t\x12\x13\n\tint_v'
    b'alue\x18\x02 \x01(\x05H\x00\x12\x15\n\x0bfloat_value\x18\x03 \x01(\x02H\x00\x12\x15\n\x0barray_val'
    b'ue\x18\x04 \x01(\x0cH\x00\x12\x14\n\nbool_value\x18\x05 \x01(\x08H\x00B\x07\n\x05value"5\n\x11Set'
    b'SiphonResponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01(\t'
    b'"E\n\x12InputKeyTapRequest\x12\x0c\n\x04keys\x18\x01 \x03(\t\x12\x0f\n\x07hold_ms\x18'
    b'\x02 \x01(\x05\x12\x10\n\x08delay_ms\x18\x03 \x01(\x05"7\n\x13InputKeyTapResponse\x12\x0f'
    b'\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01(\t"4\n\x15InputKeyTogg'
    b'leRequest\x12\x0b\n\x03key\x18\x01 \x01(\t\x12\x0e\n\x06toggle\x18\x02 \x01(\x08":\n\x16InputK'
    b'eyToggleResponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01'
    b'(\t"C\n\x10MoveMouseRequest\x12\x0f\n\x07delta_x\x18\x01 \x01(\x05\x12\x0f\n\x07delta'
    b'_y\x18\x02 \x01(\x05\x12\r\n\x05steps\x18\x03 \x01(\x05"5\n\x11MoveMouseResponse\x12\x0f\n\x07'
    b'success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01(\t"\x15\n\x13CaptureFrameRe'
    b'quest"f\n\x14CaptureFrameResponse\x12\r\n\x05frame\x18\x01 \x01(\x0c\x12\r\n\x05'
    b'width\x18\x02 \x01(\x05\x12\x0e\n\x06height\x18\x03 \x01(\x05\x12\x0f\n\x07success\x18\x04 \x01(\x08\x12\x0f\n\x07'
    b'message\x18\x05 \x01(\t"\x82\x01\n\x15ExecuteCommandRequest\x12\x0f\n\x07comma'
    b'nd\x18\x01 \x01(\t\x12\x0c\n\x04args\x18\x02 \x03(\t\x12\x19\n\x11working_directory\x18\x03 \x01('
    b'\t\x12\x17\n\x0ftimeout_seconds\x18\x04 \x01(\x05\x12\x16\n\x0ecapture_output\x18\x05 \x01'
    b'(\x08"\x96\x01\n\x16ExecuteCommandResponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f'
    b'\n\x07message\x18\x02 \x01(\t\x12\x11\n\texit_code\x18\x03 \x01(\x05\x12\x15\n\rstdout_out'
    b'put\x18\x04 \x01(\t\x12\x15\n\rstderr_output\x18\x05 \x01(\t\x12\x19\n\x11execution_ti'
    b'me_ms\x18\x06 \x01(\x05"\x83\x01\n\x15ProcessAttributeProto\x12\x0c\n\x04name\x18\x01 '
    b'\x01(\t\x12\x0f\n\x07pattern\x18\x02 \x01(\t\x12\x0f\n\x07offsets\x18\x03 \x03(\x04\x12\x0c\n\x04type\x18\x04 '
    b'\x01(\t\x12\x0e\n\x06length\x18\x05 \x01(\x04\x12\x0e\n\x06method\x18\x06 \x01(\t\x12\x0c\n\x04mask\x18\x07 \x01('
    b'\r"\x87\x01\n\x17SetProcessConfigRequest\x12\x14\n\x0cprocess_name\x18\x01 '
    b'\x01(\t\x12\x1b\n\x13process_window_name\x18\x02 \x01(\t\x129\n\nattributes\x18\x03'
    b' \x03(\x0b2%.siphon_service.ProcessAttributeProto"<\n\x18S'
    b'etProcessConfigResponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07mess'
    b'age\x18\x02 \x01(\t"\x19\n\x17InitializeMemoryRequest"P\n\x18Initiali'
    b'zeMemoryResponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01'
    b'(\t\x12\x12\n\nprocess_id\x18\x03 \x01(\x05"-\n\x16InitializeInputRequest'
    b'\x12\x13\n\x0bwindow_name\x18\x01 \x01(\t";\n\x17InitializeInputResponse'
    b'\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01(\t"/\n\x18Initialize'
    b'CaptureRequest\x12\x13\n\x0bwindow_name\x18\x01 \x01(\t"j\n\x19Initializ'
    b'eCaptureResponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01'
    b'(\t\x12\x14\n\x0cwindow_width\x18\x03 \x01(\x05\x12\x15\n\rwindow_height\x18\x04 \x01(\x05"'
    b'\x18\n\x16GetServerStatusRequest"\xe2\x01\n\x17GetServerStatusRes'
    b'ponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01(\t\x12\x1a\n\x12memor'
    b'y_initialized\x18\x03 \x01(\x08\x12\x19\n\x11input_initialized\x18\x04 \x01(\x08\x12\x1b'
    b'\n\x13capture_initialized\x18\x05 \x01(\x08\x12\x12\n\nconfig_set\x18\x06 \x01(\x08\x12'
    b'\x14\n\x0cprocess_name\x18\x07 \x01(\t\x12\x13\n\x0bwindow_name\x18\x08 \x01(\t\x12\x12\n\npr'
    b'ocess_id\x18\t \x01(\x05"h\n\x15StartRecordingRequest\x12\x17\n\x0fattri'
    b'bute_names\x18\x01 \x03(\t\x12\x18\n\x10output_directory\x18\x02 \x01(\t\x12\x1c\n\x14ma'
    b'x_duration_seconds\x18\x03 \x01(\x05"N\n\x16StartRecordingRespon'
    b'se\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12\x0f\n\x07message\x18\x02 \x01(\t\x12\x12\n\nsession_'
    b'id\x18\x03 \x01(\t"*\n\x14StopRecordingRequest\x12\x12\n\nsession_id\x18\x01'
    b' \x01(\t"\xb8\x01\n\x15StopRecordingResponse\x12\x0f\n\x07success\x18\x01 \x01(\x08\x12'
    b'\x0f\n\x07message\x18\x02 \x01(\t\x12\x14\n\x0ctotal_frames\x18\x03 \x01(\x05\x12\x1a\n\x12averag'
    b'e_latency_ms\x18\x04 \x01(\x01\x12\x16\n\x0edropped_frames\x18\x05 \x01(\x05\x12\x1f\n\x17ac'
    b'tual_duration_seconds\x18\x06 \x01(\x01\x12\x12\n\nactual_fps\x18\x07 \x01(\x01"'
    b'/\n\x19GetRecordingStatusRequest\x12\x12\n\nsession_id\x18\x01 \x01(\t'
    b'"\xbd\x01\n\x1aGetRecordingStatusResponse\x12\x0f\n\x07success\x18\x01 \x01(\x08'
    b'\x12\x0f\n\x07message\x18\x02 \x01(\t\x12\x14\n\x0cis_recording\x18\x03 \x01(\x08\x12\x15\n\rcurre'
    b'nt_frame\x18\x04 \x01(\x05\x12\x1c\n\x14elapsed_time_seconds\x18\x05 \x01(\x01\x12\x1a\n\x12'
    b'current_latency_ms\x18\x06 \x01(\x01\x12\x16\n\x0edropped_frames\x18\x07 \x01(\x05'
    b'".\n\x18DownloadRecordingRequest\x12\x12\n\nsession_id\x18\x01 \x01(\t'
    b'"f\n\x0eRecordingChunk\x12\x0c\n\x04data\x18\x01 \x01(\x0c\x12\x0e\n\x06offset\x18\x02 \x01(\x04'
    b'\x12\x12\n\ntotal_size\x18\x03 \x01(\x04\x12\x10\n\x08is_final\x18\x04 \x01(\x08\x12\x10\n\x08filena'
    b'me\x18\x05 \x01(\t"6\n\x13StreamFramesRequest\x12\x0e\n\x06format\x18\x01 \x01(\t\x12'
    b'\x0f\n\x07quality\x18\x02 \x01(\x05"t\n\tFrameData\x12\x0c\n\x04data\x18\x01 \x01(\x0c\x12\x14\n\x0ct'
    b'imestamp_us\x18\x02 \x01(\x03\x12\r\n\x05width\x18\x03 \x01(\x05\x12\x0e\n\x06height\x18\x04 \x01(\x05'
    b'\x12\x14\n\x0cframe_number\x18\x05 \x01(\x05\x12\x0e\n\x06format\x18\x06 \x01(\t2\xdf\x0c\n\rSipho'
    b'nService\x12S\n\x0cGetAttribute\x12 .siphon_service.GetSip'
    b'honRequest\x1a!.siphon_service.GetSiphonResponse\x12S\n'
    b'\x0cSetAttribute\x12 .siphon_service.SetSiphonRequest\x1a'
    b'!.siphon_service.SetSiphonResponse\x12V\n\x0bInputKeyTa'
    b'p\x12".siphon_service.InputKeyTapRequest\x1a#.siphon_s'
    b'ervice.InputKeyTapResponse\x12_\n\x0eInputKeyToggle\x12%.s'
    b'iphon_service.InputKeyToggleRequest\x1a&.siphon_ser'
    b'vice.InputKeyToggleResponse\x12P\n\tMoveMouse\x12 .sipho'
    b'n_service.MoveMouseRequest\x1a!.siphon_service.Move'
    b'MouseResponse\x12Y\n\x0cCaptureFrame\x12#.siphon_service.C'
    b'aptureFrameRequest\x1a$.siphon_service.CaptureFrame'
    b'Response\x12_\n\x0eExecuteCommand\x12%.siphon_service.Exec'
    b'uteCommandRequest\x1a&.siphon_service.ExecuteComman'
    b"dResponse\x12e\n\x10SetProcessConfig\x12'.siphon_service.S"
    b'etProcessConfigRequest\x1a(.siphon_service.SetProce'
    b"ssConfigResponse\x12e\n\x10InitializeMemory\x12'.siphon_se"
    b'rvice.InitializeMemoryRequest\x1a(.siphon_service.I'
    b'nitializeMemoryResponse\x12b\n\x0fInitializeInput\x12&.sip'
    b"hon_service.InitializeInputRequest\x1a'.siphon_serv"
    b'ice.InitializeInputResponse\x12h\n\x11InitializeCapture'
    b'\x12(.siphon_service.InitializeCaptureRequest\x1a).sip'
    b'hon_service.InitializeCaptureResponse\x12b\n\x0fGetServ'
    b'erStatus\x12&.siphon_service.GetServerStatusRequest'
    b"\x1a'.siphon_service.GetServerStatusResponse\x12_\n\x0eSta"
    b'rtRecording\x12%.siphon_service.StartRecordingReque'
    b'st\x1a&.siphon_service.StartRecordingResponse\x12\\\n\rSt'
    b'opRecording\x12$.siphon_service.StopRecordingReques'
    b't\x1a%.siphon_service.StopRecordingResponse\x12k\n\x12GetR'
    b'ecordingStatus\x12).siphon_service.GetRecordingStat'
    b'usRequest\x1a*.siphon_service.GetRecordingStatusRes'
    b'ponse\x12_\n\x11DownloadRecording\x12(.siphon_service.Down'
    b'loadRecordingRequest\x1a\x1e.siphon_service.RecordingC'
    b'hunk0\x01\x12P\n\x0cStreamFrames\x12#.siphon_service.StreamFr'
    b'amesRequest\x1a\x19.siphon_service.FrameData0\x01b\x06proto3'
)

DESCRIPTOR = DescriptorPool().AddSerializedFile(_DESCRIPTION)

GetSiphonRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["GetSiphonRequest"])
GetSiphonResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["GetSiphonResponse"])
SetSiphonRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["SetSiphonRequest"])
SetSiphonResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["SetSiphonResponse"])
InputKeyTapRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["InputKeyTapRequest"])
InputKeyTapResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["InputKeyTapResponse"])
InputKeyToggleRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["InputKeyToggleRequest"])
InputKeyToggleResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["InputKeyToggleResponse"])
MoveMouseRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["MoveMouseRequest"])
MoveMouseResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["MoveMouseResponse"])
CaptureFrameRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["CaptureFrameRequest"])
CaptureFrameResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["CaptureFrameResponse"])
ExecuteCommandRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["ExecuteCommandRequest"])
ExecuteCommandResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["ExecuteCommandResponse"])
ProcessAttributeProto = GetMessageClass(DESCRIPTOR.message_types_by_name["ProcessAttributeProto"])
SetProcessConfigRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["SetProcessConfigRequest"])
SetProcessConfigResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["SetProcessConfigResponse"])
InitializeMemoryRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["InitializeMemoryRequest"])
InitializeMemoryResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["InitializeMemoryResponse"])
InitializeInputRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["InitializeInputRequest"])
InitializeInputResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["InitializeInputResponse"])
InitializeCaptureRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["InitializeCaptureRequest"])
InitializeCaptureResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["InitializeCaptureResponse"])
GetServerStatusRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["GetServerStatusRequest"])
GetServerStatusResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["GetServerStatusResponse"])
StartRecordingRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["StartRecordingRequest"])
StartRecordingResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["StartRecordingResponse"])
StopRecordingRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["StopRecordingRequest"])
StopRecordingResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["StopRecordingResponse"])
GetRecordingStatusRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["GetRecordingStatusRequest"])
GetRecordingStatusResponse = GetMessageClass(DESCRIPTOR.message_types_by_name["GetRecordingStatusResponse"])
DownloadRecordingRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["DownloadRecordingRequest"])
RecordingChunk = GetMessageClass(DESCRIPTOR.message_types_by_name["RecordingChunk"])
StreamFramesRequest = GetMessageClass(DESCRIPTOR.message_types_by_name["StreamFramesRequest"])
FrameData = GetMessageClass(DESCRIPTOR.message_types_by_name["FrameData"])
