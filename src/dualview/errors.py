"""What can go wrong, by name."""


class DualViewError(Exception):
    """Base of all errors this package raises."""


class InputError(DualViewError, ValueError):
    """The input is not what was wanted; the message says what was, what came and what to do."""


class DegenerateError(DualViewError, ArithmeticError):
    """The posterior has no finite shape on these data: numbers ran out of range during sampling."""


class DataWarning(UserWarning):
    """The input is usable, but something about it deserves a look."""
