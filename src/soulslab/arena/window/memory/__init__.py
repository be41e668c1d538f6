"""The state of the game in its own memory, in the layout of a profile: `synthesise` and `ProfileMemory`."""
