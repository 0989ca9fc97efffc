"""Arrays into rows of numbers."""

from dualview.numerics.compiling import in_place


@in_place
def put(row, at, values):
    """In place: the values into the row from a place on; returns the place after them."""
    for value in values.flat:
        row[at] = value
        at += 1
    return at
