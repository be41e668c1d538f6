"""The errors of soulslab, as a tree.

::

    SoulslabError
    ├── ConfigError              a setting is unknown, missing, of the wrong type or out of range
    │   ├── BossFileError        a boss file is malformed (path of the mistake)
    │   ├── UntrustedFileError   a file decides what runs, and was not trusted (path of the setting)
    │   └── MissingFactError     nobody has published what is needed of a boss (how to record it)
    ├── EnvironmentUsageError    an environment was used wrongly
    │   ├── UnknownBossError     no boss of that name (did you mean ...)
    │   ├── UnknownRewardError   no reward preset or term of that name
    │   ├── UnknownOptionError   no environment option of that name; also a TypeError
    │   ├── NotResetError        step before reset
    │   ├── InvalidActionError   an action outside the action space
    │   └── NonFiniteError       an environment gave NaN or infinity
    ├── CheckpointError          a checkpoint cannot be used
    │   ├── CorruptCheckpointError   truncated or altered
    │   └── IncompatibleCheckpointError   written for another env, version or shape
    ├── DemonstrationError       recorded fights cannot be written, read or learned from (episode, step)
    ├── ChannelError             the memory that an actor and a learner share cannot be used (the file)
    ├── ActorError               the process that plays for a learner failed too often (the end of its log)
    ├── ReplayError              a replay buffer was used wrongly: rows that do not fit, nothing to draw
    │   └── NonFinitePriorityError   a transition's error is NaN or infinite
    ├── DivergedError            a learner's weights are NaN or infinite
    ├── LayoutError              the memory of a fight cannot be laid out as a profile says (both places)
    ├── VideoError               a film of a fight could not be made
    ├── KeyLogError              a key log cannot be written, read, or played again (the tick)
    ├── SaveFileError            a save file of a game cannot be found, copied or put back (the file)
    ├── NoWinError               no fight was won that could be shown
    ├── TerminalError            this terminal cannot be played in
    ├── BenchmarkError           a run of a benchmark failed (what it said)
    ├── StudyError               a study of settings cannot be begun, gone on with, or brought to an end (its folder)
    ├── MissingDependencyError   an optional part of soulslab is not installed
    └── SiphonError              the bridge to a game failed
        ├── ProfileError             a game's profile is malformed (path of the mistake); also a ConfigError
        ├── ProcessError             the game's process cannot be used
        │   ├── ProcessNotFoundError     no process of that name or id
        │   ├── AmbiguousProcessError    several processes match
        │   ├── AttachDeniedError        the system does not let us read it
        │   ├── ProcessExitedError       it has ended
        │   ├── LaunchError              it could not be started
        │   ├── ImageError               its program or a module is not loaded, or has malformed headers
        │   ├── GameVersionError         its version is not one that the profile knows
        │   └── AntiCheatError           an anti-cheat is loaded; soulslab does not touch such a process
        ├── MemoryAccessError        an address cannot be read or written
        │   └── PointerError             a chain of pointers leads nowhere (now)
        ├── PatternError             a byte pattern was found nowhere, in several places, or with a wrong number
        ├── ScanError                a scan of the memory cannot be done as asked
        ├── UnknownAttributeError    the profile has no attribute of that name
        ├── AttributeVersionError    an attribute is not known for the version of the game
        ├── UndecidedAttributeError  no way to an attribute leads to a plausible value (what each gave)
        ├── ImplausibleValueError    a value that was read lies outside its plausible range
        ├── SelfCheckError           attributes that are needed failed the self-check (which, and why)
        ├── EntityNotFoundError      no entity of the list has the id
        ├── InvalidValueError        a value to write has the wrong type or lies out of range
        ├── ReadOnlyError            a write in a session that was opened read-only
        ├── InputError               a key or the mouse could not be moved
        │   └── UnknownKeyError          no key of that name
        ├── DisplayError             an X display cannot be started or reached
        ├── WindowError              the game's window cannot be used
        │   ├── WindowNotFoundError      it has none that fits
        │   └── WindowGoneError          it was closed or unmapped
        ├── ClockError               game time cannot be controlled as asked
        │   ├── ClockUnavailableError    this grade of clock cannot do that, or cannot be had here
        │   ├── ClockStalledError        the game did not reach the limit before the deadline
        │   └── LostTickError            a step made fewer or more ticks than it should have made
        ├── WaitTimeoutError         a condition did not come true before its deadline
        │   └── ResetFailedError         a game could not be brought to the start of an episode
        ├── SessionStateError        a session was used before it was open, or after it was closed
        ├── RecordingError           a recording cannot be written or read
        └── RemoteError              a session on a server failed as such
            ├── ServerUnavailableError   nobody answers there, or the answer came too late
            ├── AccessRefusedError       the token is missing or wrong, or TLS is needed
            ├── ControlTakenError        another client has the keys and the time
            └── WireError                a message is malformed, or of another version

Every message says what was wrong, where, and what to do. The fields carry the same for programs.
"""

from soulslab.errors.bridge import (
    AccessRefusedError,
    AmbiguousProcessError,
    AntiCheatError,
    AttachDeniedError,
    AttributeVersionError,
    ClockError,
    ClockStalledError,
    ClockUnavailableError,
    ControlTakenError,
    DisplayError,
    EntityNotFoundError,
    GameVersionError,
    ImageError,
    ImplausibleValueError,
    InputError,
    InvalidValueError,
    LaunchError,
    LostTickError,
    MemoryAccessError,
    PatternError,
    PointerError,
    ProcessError,
    ProcessExitedError,
    ProcessNotFoundError,
    ProfileError,
    ReadOnlyError,
    RecordingError,
    RemoteError,
    ResetFailedError,
    ScanError,
    SelfCheckError,
    ServerUnavailableError,
    SessionStateError,
    SiphonError,
    UndecidedAttributeError,
    UnknownAttributeError,
    UnknownKeyError,
    WaitTimeoutError,
    WindowError,
    WindowGoneError,
    WindowNotFoundError,
    WireError,
)
from soulslab.errors.general import (
    ActorError,
    BenchmarkError,
    BossFileError,
    ChannelError,
    CheckpointError,
    ConfigError,
    CorruptCheckpointError,
    DemonstrationError,
    DivergedError,
    EnvironmentUsageError,
    IncompatibleCheckpointError,
    InvalidActionError,
    KeyLogError,
    LayoutError,
    MissingDependencyError,
    MissingFactError,
    NonFiniteError,
    NonFinitePriorityError,
    NotResetError,
    NoWinError,
    ReplayError,
    SaveFileError,
    SoulslabError,
    StudyError,
    TerminalError,
    UnknownBossError,
    UnknownOptionError,
    UnknownRewardError,
    UntrustedFileError,
    VideoError,
    did_you_mean,
    missing_dependency,
    optional_imports,
)

__all__ = [
    "AccessRefusedError",
    "ActorError",
    "AmbiguousProcessError",
    "AntiCheatError",
    "AttachDeniedError",
    "AttributeVersionError",
    "BenchmarkError",
    "BossFileError",
    "ChannelError",
    "CheckpointError",
    "ClockError",
    "ClockStalledError",
    "ClockUnavailableError",
    "ConfigError",
    "ControlTakenError",
    "CorruptCheckpointError",
    "DemonstrationError",
    "DisplayError",
    "DivergedError",
    "EntityNotFoundError",
    "EnvironmentUsageError",
    "GameVersionError",
    "ImageError",
    "ImplausibleValueError",
    "IncompatibleCheckpointError",
    "InputError",
    "InvalidActionError",
    "InvalidValueError",
    "KeyLogError",
    "LaunchError",
    "LayoutError",
    "LostTickError",
    "MemoryAccessError",
    "MissingDependencyError",
    "MissingFactError",
    "NoWinError",
    "NonFiniteError",
    "NonFinitePriorityError",
    "NotResetError",
    "PatternError",
    "PointerError",
    "ProcessError",
    "ProcessExitedError",
    "ProcessNotFoundError",
    "ProfileError",
    "ReadOnlyError",
    "RecordingError",
    "RemoteError",
    "ReplayError",
    "ResetFailedError",
    "SaveFileError",
    "ScanError",
    "SelfCheckError",
    "ServerUnavailableError",
    "SessionStateError",
    "SiphonError",
    "SoulslabError",
    "StudyError",
    "TerminalError",
    "UndecidedAttributeError",
    "UnknownAttributeError",
    "UnknownBossError",
    "UnknownKeyError",
    "UnknownOptionError",
    "UnknownRewardError",
    "UntrustedFileError",
    "VideoError",
    "WaitTimeoutError",
    "WindowError",
    "WindowGoneError",
    "WindowNotFoundError",
    "WireError",
    "did_you_mean",
    "missing_dependency",
    "optional_imports",
]
