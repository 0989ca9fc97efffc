"""The order of the gallery: from the first case to the special ones."""

TUTORIAL = ("five_minutes",)
NAMES = (
    "roles",
    "cold_start",
    "repeated_measures",
    "yes_or_no",
    "survival",
    "choices",
    "missing_cells",
    "checking",
    "useless_features",
    "disagreement",
    "many_users",
    "resuming",
    "posts_to_report",
)


class Order:
    """Places of examples by name, as Sphinx-Gallery asks for them; one that is not in the list is
    an error."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> int:
        return (*TUTORIAL, *NAMES).index(filename.removesuffix(".py"))
