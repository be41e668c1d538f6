"""The surroundings of the fight: ground, ruins, sky, weather, and the camera."""
