"""Interfaces of other projects, implemented with the environments of soulslab."""
