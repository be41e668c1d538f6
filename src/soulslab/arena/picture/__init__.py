"""Parts of the picture from above (see `soulslab.arena.top_down`)."""
