"""Access to running games: memory, keyboard and mouse, window capture, and control of game time.

It handles processes, windows and clocks; it contains nothing about a certain game or about reinforcement learning.
"""
