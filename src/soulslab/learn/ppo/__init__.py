"""Proximal policy optimisation: the algorithm, its rollouts, and the statistics of its episodes."""
