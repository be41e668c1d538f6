"""The built-in fight as a game on screen: a process of its own with a window, drawn by panda3d.

Only this package knows panda3d, and of `soulslab.siphon` it knows profiles alone: its memory is laid out by one.
"""
