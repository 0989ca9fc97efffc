"""Messages of the library for the command line: options instead of arguments, the file of --columns
instead of ``columns=``."""

import re
from collections.abc import Sequence

_CENSORED = re.compile(
    r"""columns=\{(?P<name>['"].*?['"]): Censored\((?P<low>[^,]*), (?P<high>[^)]*)\)\}"""
)
_RECORD = re.compile(r"""columns=\{(?P<name>['"].*?['"]): \{(?P<entries>[^}]*)\}\}""")
_KIND = re.compile(r"""columns=\{(?P<name>['"].*?['"]): ['"](?P<kind>\w+)['"]\}""")
_PYTHON = {
    "behavior_prior=GaussianPrior(mean, covariance)": "--behavior-prior likelihood",
    'pooling="cluster"': "--pooling cluster",
    "UserRegression": "--kind regression",
    "BinaryOutcomes": "--kind binary",
    "OrdinalOutcomes": "--kind ordinal",
    "CategoricalOutcomes": "--kind categorical",
    "SurvivalOutcomes": "--kind survival",
    "CountOutcomes": "--kind counts",
    "PairwiseChoices": "--kind choices",
}
_FILE = "in the file of --columns, which 'dualview columns' writes"


def with_options(message: str, options: Sequence[str]) -> str:
    """A message with a command's options in the place of Python's arguments: --draws for n_draws.

    options: their names as Python writes them.
    """
    names = {f"n_{name}": name for name in options} | {
        name: name for name in options if "_" in name
    }
    names |= {"random_state": "seed"} if "seed" in options else {}
    for python, words in _PYTHON.items():
        message = message.replace(python, words)
    message = _CENSORED.sub(
        lambda found: (
            f'[{found["name"]}] kind = "censored", low = {found["low"]}, high = {found["high"]} '
            f"{_FILE}"
        ),
        message,
    )
    message = _RECORD.sub(
        lambda found: f"[{found['name']}] {_entries(found['entries'])} {_FILE}", message
    )
    message = _KIND.sub(
        lambda found: f'[{found["name"]}] kind = "{found["kind"]}" {_FILE}', message
    )
    return re.sub(
        r"\b\w+\b",
        lambda word: f"--{names[word[0]].replace('_', '-')}" if word[0] in names else word[0],
        message,
    )


def _entries(text: str) -> str:
    """Entries of a dict as TOML writes them: kind = "rounded", step = 0.5."""
    return re.sub(r"'(\w+)': ", r"\1 = ", text).replace("'", '"')
