"""Users and observations matched by their ids. What new observations are called in messages is ``what``."""

from collections import Counter
from collections.abc import Sequence

from dualview.errors import InputError


def check_distinct(users: Sequence[str]) -> None:
    """Raise where two users have the same id."""
    repeated = [user for user, n in Counter(users).items() if n > 1]
    if repeated:
        raise InputError(f"users must differ; more than once: {', '.join(repeated[:5])}.")


def places_among(users: Sequence[str], everybody: Sequence[str], what: str) -> list[int]:
    """Positions of users among everybody who has features; an error where a user has none."""
    place = {user: u for u, user in enumerate(everybody)}
    unknown = [user for user in users if user not in place]
    if unknown:
        raise InputError(
            f"New {what} have users without features: {', '.join(unknown[:5])}. Give X a row for each of them, or leave out "
            f"their {what}."
        )
    return [place[user] for user in users]


def known_and_new(users: Sequence[str], known: Sequence[str], n_new: int, what: str) -> list[str]:
    """Ids of the fit's users in its order, then of the others, of whom there are features of n_new."""
    fitted = set(known)
    new = [user for user in users if user not in fitted]
    if len(new) != n_new:
        raise InputError(
            f"New {what} have {len(new)} user(s) unknown to the fit ({', '.join(new[:5]) or 'none'}) and there are features of "
            f"{n_new}: give X_new a row for each, in the order of their ids, or leave out their {what}."
        )
    return [*known, *new]


def joined_ids(before: list[str] | None, new: list[str] | None, what: str) -> list[str] | None:
    """Ids of observations and of those that come after them, where both have some; an error where one comes again."""
    if before is None or new is None:
        return None
    again = sorted(set(before) & set(new))
    if again:
        raise InputError(f"New {what} must be new; already in the fit: {', '.join(again[:5])}. Leave them out.")
    return [*before, *new]
