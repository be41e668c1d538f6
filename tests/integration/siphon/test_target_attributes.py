"""Attributes of a real process that moves and frees its objects."""

from support.target_attributes_contract import TargetAttributesContract


class TestTargetAttributes(TargetAttributesContract):
    pass
