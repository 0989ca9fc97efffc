"""The command line: the commands, how functions become commands, settings from a file, and messages
of the library in words of the command line."""

from dualview.cli.commands import LINE, main

__all__ = ["LINE", "main"]
