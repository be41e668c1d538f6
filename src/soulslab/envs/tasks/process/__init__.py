"""Games that are described by a profile."""
