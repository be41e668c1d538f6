"""Replay: what was lived through, kept to be looked at again.

Small nouns: `elements` (what one step leaves), `incoming` (what of it is refused), `ring` (each environment's steps in
order), `accumulator` (n-step transitions, put together when they are drawn), `sum_tree` and `samplers` (which are
drawn), `buffer` (all of it together), `store` (on the disk, a chunk at a time); `kernel` compiles their loops.
"""
