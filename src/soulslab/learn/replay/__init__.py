"""Replay buffer: stores transitions and draws them for updates.

`step_rows` defines the row of a step, `row_ring` stores the steps of each environment in order, `n_step_accumulator`
computes n-step transitions when they are drawn, `samplers` draws them, `replay_buffer` validates rows and combines
these, `replay_store` writes the rows to the disk in chunks, and `numba_kernel` compiles the loops.
"""
