"""Exception hierarchy of soulslab.

::

    SoulslabError
    ├── ConfigError              a setting is unknown, missing, of the wrong type or out of range
    │   ├── BossFileError        a boss file is malformed (path of the mistake)
    │   ├── UntrustedFileError   a setting that selects code, a file or a server is in a file that was not trusted
    │   └── MissingFactError     a fact about a boss is not published (how to record it)
    ├── EnvironmentUsageError    an environment was created or used wrongly
    │   ├── UnknownBossError     unknown boss (the message suggests a name)
    │   ├── UnknownRewardError   unknown reward preset or reward term
    │   ├── UnknownOptionError   unknown environment option; also a TypeError
    │   ├── NotResetError        step before reset
    │   ├── InvalidActionError   an action outside the action space
    │   └── NonFiniteError       an environment returned NaN or infinity
    ├── FileError                a file or folder cannot be used (its path)
    │   ├── CheckpointError          a checkpoint cannot be used
    │   │   ├── CorruptCheckpointError   truncated or altered
    │   │   └── IncompatibleCheckpointError   written for another env, version or shape
    │   ├── ChannelError             memory or a folder shared by the processes of a run cannot be used
    │   ├── VideoError               a video of a fight could not be made
    │   ├── KeyLogError              a key log cannot be written, read or replayed (the tick)
    │   ├── SaveFileError            a save file of a game cannot be found, copied or restored
    │   └── StudyError               a tuning study cannot be created, resumed or completed (its folder)
    ├── DemonstrationError       recorded fights cannot be written, read or learned from (episode, step)
    ├── ActorError               an actor process failed too often (end of its log)
    ├── ReplayError              a replay buffer was used wrongly
    │   └── NonFinitePriorityError   the error of a transition is NaN or infinite
    ├── DivergedError            the weights of a learner are NaN or infinite
    ├── LayoutError              a memory layout cannot satisfy a profile (both places)
    ├── NoWinError               no fight was won, so no video can be made
    ├── TerminalError            the terminal cannot be used to play
    ├── BenchmarkError           a benchmark process failed (end of its standard error)
    ├── MissingDependencyError   an optional package is not installed
    └── SiphonError              the bridge to a game failed
        ├── ProfileError             a profile is malformed (path of the mistake); also a ConfigError
        ├── ProcessError             the process of the game cannot be used
        │   ├── ProcessNotFoundError     no process has that name or id
        │   ├── AmbiguousProcessError    several processes match
        │   ├── AttachDeniedError        the operating system denies access to the process
        │   ├── ProcessExitedError       the process has exited
        │   ├── LaunchError              the game could not be started
        │   ├── ImageError               the program or a module is not loaded, or has malformed headers
        │   ├── GameVersionError         the profile does not support the version of the game
        │   └── AntiCheatError           an anti-cheat is loaded; soulslab does not access such a process
        ├── MemoryAccessError        an address cannot be read or written
        │   └── PointerError             a pointer chain is broken (at the moment)
        ├── PatternError             a byte pattern has no match, several, or an implausible operand
        ├── ScanError                a memory scan is not possible with these arguments
        ├── UnknownAttributeError    the profile has no attribute of that name
        ├── AttributeVersionError    an attribute is unknown for the version of the game
        ├── UndecidedAttributeError  no alternative of an attribute gives a plausible value
        ├── ImplausibleValueError    a value is outside its plausible range
        ├── SelfCheckError           needed attributes failed the self-check (which, and why)
        ├── EntityNotFoundError      no entity in the list has the id
        ├── InvalidValueError        a value to write has the wrong type or is out of range
        ├── ReadOnlyError            a write in a read-only session
        ├── InputError               a key could not be pressed, or the mouse not moved
        │   └── UnknownKeyError          unknown key
        ├── DisplayError             an X display cannot be started or reached
        ├── WindowError              the window of the game cannot be used
        │   ├── WindowNotFoundError      the process has no matching window
        │   └── WindowGoneError          the window was closed or unmapped
        ├── ClockError               game time cannot be controlled as requested
        │   ├── ClockUnavailableError    the clock grade does not support this, or is not available here
        │   ├── ClockStalledError        the game did not reach the limit before the deadline
        │   └── LostTickError            a step advanced a wrong number of ticks
        ├── WaitTimeoutError         a condition was not true before the deadline
        │   └── ResetFailedError         a game could not be brought to the start of an episode
        ├── SessionStateError        a session was used before it was open or after it was closed
        ├── RecordingError           a recording cannot be written or read
        └── RemoteError              a remote session failed
            ├── ServerUnavailableError   the server does not answer, or answered too late
            ├── AccessRefusedError       the token is missing or wrong, or TLS is required
            ├── ControlTakenError        another client controls the game
            └── WireError                a message is malformed, or has another version

Every message says what is wrong, where, and what to do. The fields contain the same information for programs.
"""

from soulslab.errors.bridge import *  # noqa: F403  (the names in its __all__)
from soulslab.errors.general import *  # noqa: F403  (as above)
