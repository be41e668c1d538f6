"""Replay buffer: stores transitions and draws them for updates.

`step_rows` defines the row of a step, `row_check` validates rows, `row_ring` stores the steps of each environment in
order, `n_step_accumulator` computes n-step transitions when they are drawn, `sum_tree` and `samplers` draw them,
`replay_buffer` combines these, `replay_store` writes the rows to the disk in chunks, and `numba_kernel` compiles the
loops.
"""
