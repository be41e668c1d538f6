"""The built-in fight for people: play it in a terminal, or watch a policy in a terminal or a window."""
