"""What can go wrong, by name."""


class DualViewError(Exception):
    """Base of all errors this package raises."""


class InputError(DualViewError, ValueError):
    """The input is not what was wanted; the message says what was, what came and what to do."""


class InputTypeError(InputError, TypeError):
    """The input holds things of a kind that cannot be numbers."""


class DegenerateError(DualViewError, ArithmeticError):
    """The posterior is improper for these data: numbers overflowed or underflowed during sampling."""


class DataWarning(UserWarning):
    """The input is usable, but something about it deserves a look."""


class FileError(DualViewError, OSError):
    """A file cannot be read or written; the message says which and why."""


class ConvergenceWarning(UserWarning):
    """The chains have not converged; the message says what has not and what to do."""


class MissingExtraError(DualViewError, ImportError):
    """A package that only an extra of dualview installs is missing; the message names the extra."""
