"""Overlay of the window: bars, the lock-on marker, banners, screens, and help."""
