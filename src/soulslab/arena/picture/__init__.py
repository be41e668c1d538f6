"""The parts of the drawing from above (see `soulslab.arena.top_down`)."""
