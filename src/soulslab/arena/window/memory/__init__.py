"""The game's state in its own memory, laid out as a profile says: `synthesise` and `ProfileMemory`."""
