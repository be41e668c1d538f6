"""Reinforcement learning: policies, algorithms, evaluation, telemetry; knows environments by their Gymnasium ids."""
