"""Many games on many machines that feed one learner over Redis Streams; see docs/fleet.md."""
