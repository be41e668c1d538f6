"""Gymnasium environments: ids, spaces, observations, actions and rewards."""
