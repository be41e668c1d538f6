"""Replay: what was lived through, kept to be looked at again.

Small nouns: `elements` (what one step leaves), `ring` (the steps of each environment in order), `sum_tree` and
`samplers` (which are drawn), `buffer` (all of it together), `store` (on the disk, a chunk at a time).
"""
