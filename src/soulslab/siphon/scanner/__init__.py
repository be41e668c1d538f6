"""Scanner: finds the address of a value with repeated scans, pointer paths to it, and writes the profile entry."""
