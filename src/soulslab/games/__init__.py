"""One folder per game: its profile, and what TOML cannot say."""
