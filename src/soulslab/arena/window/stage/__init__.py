"""Where the fight takes place: ground, ruins, sky, weather, and the camera that looks at it."""
