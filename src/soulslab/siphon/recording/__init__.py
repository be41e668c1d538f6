"""Values, keys and frames at a fixed rate, to a file that stays readable whatever happens."""
