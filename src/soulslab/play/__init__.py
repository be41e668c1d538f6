"""The arena in a terminal: play it, or watch a policy play (`soulslab.play.game`)."""
