"""Environments of any game that has a profile."""
