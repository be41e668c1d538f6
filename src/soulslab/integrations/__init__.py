"""Adapters for other reinforcement-learning libraries; each module needs the library that it is named after."""
