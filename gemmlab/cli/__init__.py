"""The command line: python -m gemmlab doctor, ladder, bench, sweep, record, tune, compile, sass.

command_line reads it and turns errors into exit codes; each command has a module. output has the
codes, and what is said beside the results.
"""

from gemmlab.cli.command_line import main
from gemmlab.cli.output import FAILED, OK, STOPPED, UNAVAILABLE, USAGE

__all__ = ["FAILED", "OK", "STOPPED", "UNAVAILABLE", "USAGE", "main"]
