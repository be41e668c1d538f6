"""Transports between an actor and the learner, in one process or through shared memory, and the actor's process."""
