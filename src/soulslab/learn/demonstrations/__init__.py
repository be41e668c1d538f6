"""Recorded episodes of a script, a policy or a person, as Minari data sets: writing, and reading as replay rows."""
