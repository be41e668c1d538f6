"""Recording of values, keys and frames at a fixed rate, to files that stay readable after a crash."""
