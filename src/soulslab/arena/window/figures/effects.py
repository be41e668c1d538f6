"""What flies, glows and whirls around the figures."""

from __future__ import annotations

from panda3d.core import NodePath

from soulslab.arena.boss_file import Boss
from soulslab.arena.live_fight import LiveFight


class Effects:
    """Projectiles, trails, sparks and waves.

    Args:
        parent: What they are in; its axes are the world's.
        boss: Whose.
    """

    def __init__(self, parent: NodePath, boss: Boss) -> None:
        self.root = parent.attachNewNode("effects")
        self._boss = boss

    def show(self, game: LiveFight) -> None:
        """Show this moment."""
