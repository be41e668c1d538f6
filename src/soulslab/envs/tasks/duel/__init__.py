"""Boss duels in a running game: one environment over a session, a profile and a scenario."""
