"""The command line: python -m gemmlab doctor, ladder, bench, sweep, record, tune, sass, show, ...

command_line reads it and turns errors into exit codes. Each command has a module that is named as
it is and adds it; a lesson adds its own by a module `command`. common has what they share.
"""

from gemmlab.cli.command_line import main
from gemmlab.cli.common import FAILED, OK, STOPPED, UNAVAILABLE, USAGE

__all__ = ["FAILED", "OK", "STOPPED", "UNAVAILABLE", "USAGE", "main"]
