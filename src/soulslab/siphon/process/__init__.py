"""Processes: discovery, executable images, launching, windows and private displays."""
