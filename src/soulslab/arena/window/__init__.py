"""The built-in fight as a game in a window: a separate process, drawn by panda3d.

Only this package imports panda3d. Of `soulslab.siphon` it imports only profiles, which define its memory layout.
"""
