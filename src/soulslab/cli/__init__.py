"""The command line. Each command has a module here, which parses, calls the package and returns an exit code."""

from soulslab.cli.application import app, main, run
from soulslab.cli.output import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_OK", "EXIT_USAGE", "app", "main", "run"]
