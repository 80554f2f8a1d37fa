"""The command line: python -m gemmlab doctor, ladder, bench, sweep, record, tune, sass, show, ...

command_line reads it and turns errors into exit codes. A module adds its commands by a function
`add`; a lesson adds its own by a module `command`. common has what they share.
"""

from gemmlab.cli.command_line import main
from gemmlab.cli.common import FAILED, OK, STOPPED, UNAVAILABLE, USAGE

__all__ = ["FAILED", "OK", "STOPPED", "UNAVAILABLE", "USAGE", "main"]
