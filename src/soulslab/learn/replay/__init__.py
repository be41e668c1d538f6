"""Replay buffer: stores transitions and draws them for updates (`replay_buffer.ReplayBuffer`)."""
