"""The command line: python -m gemmlab doctor, ladder, bench, sweep, record, tune, sass, show, ...

command_line parses it and turns errors into exit codes. A module adds its commands with a function
`add`; a lesson adds its own in a module `command`. common has the code that commands share.
"""

from gemmlab.cli.command_line import main
from gemmlab.cli.common import FAILED, OK, STOPPED, UNAVAILABLE, USAGE

__all__ = ["FAILED", "OK", "STOPPED", "UNAVAILABLE", "USAGE", "main"]
