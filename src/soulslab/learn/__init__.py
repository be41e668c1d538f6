"""Learners: policies, PPO, evaluation, checkpoints, telemetry. Environments come as Gymnasium ids only."""
