"""Adapters for other reinforcement learning libraries; each module requires the library in its name."""
