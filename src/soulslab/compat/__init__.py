"""Interfaces of other projects over the environments of soulslab."""
