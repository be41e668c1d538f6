"""Version of soulslab, used by the build and by the package."""

VERSION = "0.1.0"
