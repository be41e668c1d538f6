"""What lies over the picture: bars, the dot on the boss, banners, screens, and help."""
