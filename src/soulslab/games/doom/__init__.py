"""Chocolate Doom with Freedoom: a real, free game that nobody here wrote."""
