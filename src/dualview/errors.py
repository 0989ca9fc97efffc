"""Errors and warnings of the package."""


class DualViewError(Exception):
    """Base of all errors this package raises."""


class InputError(DualViewError, ValueError):
    """The input is invalid; the message says what was expected, what was given and what to do."""


class InputTypeError(InputError, TypeError):
    """The input contains values of a type that cannot be converted to numbers."""


class EngineError(InputError, AttributeError):
    """The engine of the estimator cannot do this; the message names the engine that can."""


class AbsentError(InputError, AttributeError):
    """This fit or behavior does not have this attribute, so that ``hasattr`` is False; the message
    says why."""


class DegenerateError(DualViewError, ArithmeticError):
    """The posterior is improper for these data: numbers overflowed or underflowed during
    sampling."""


class DataWarning(UserWarning):
    """The input is usable, but the message names something to check."""


class FileError(DualViewError, OSError):
    """A file cannot be read or written; the message names it and the reason."""


class ConvergenceWarning(UserWarning):
    """The chains have not converged; the message names the quantities and says what to do."""


class MissingExtraError(DualViewError, ImportError):
    """A package that only an extra of dualview installs is missing; the message names the extra."""
