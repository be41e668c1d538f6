"""The process bridge: memory, keyboard and mouse, window capture and game time of a running game.

It knows processes, windows and clocks; it knows no game and no reinforcement learning.
"""
