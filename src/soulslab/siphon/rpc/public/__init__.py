"""The public Siphon protocol, as pysiphon and its like speak it, on top of a session."""
