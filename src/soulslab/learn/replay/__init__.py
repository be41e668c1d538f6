"""Replay buffer: stores transitions and draws them for updates.

`elements` defines the row of a step, `incoming` validates rows, `ring` stores the steps of each environment in order,
`accumulator` computes n-step transitions when they are drawn, `sum_tree` and `samplers` draw them, `buffer` combines
these, `store` writes the rows to the disk in chunks, and `kernel` compiles the loops.
"""
