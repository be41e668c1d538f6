"""Attributes of a profile in the memory of a game: pointer chains, entities, read plans, value codecs."""
