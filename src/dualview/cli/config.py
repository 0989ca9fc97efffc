"""What a command is given before it becomes settings: those from the TOML file of --config, whose
keys are the options of the command without dashes in front, and numbers that would be rounded."""

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

if TYPE_CHECKING:
    import cyclopts

_TAKEN: Mapping[Any, tuple[type, ...]] = {  # the values of TOML that an option of a type takes
    bool: (bool,),
    int: (int,),
    float: (int, float),
    str: (str, int, float),  # alpha and agreement take numbers and text
    Path: (str,),
}
_WANTED = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "text, the name of a file or folder",
}
_CAME = {bool: "a truth value", str: "text", list: "a list", dict: "a table"}


def read_config(
    _: "cyclopts.App", commands: tuple[str, ...], arguments: "cyclopts.ArgumentCollection"
) -> None:
    """Give a command the settings in the file of its option --config, if it has one. Options of the
    command line win over the file."""
    import cyclopts

    options = {
        argument.name.removeprefix("--"): argument for argument in arguments if argument.show
    }
    file = options.pop("config", None)
    if file is None or not file.tokens:
        return
    from dualview.files.reading import read_toml

    place = file.tokens[0].value
    for key, value in read_toml(Path(place)).items():
        if key not in options:
            near = get_close_matches(key.replace("_", "-"), options, n=3)
            advice = f" Near matches: {', '.join(near)}." if near else ""
            raise cyclopts.CycloptsError(
                msg=f"{place}: {' '.join(commands)} has no option {key}.{advice}"
            )
        option = options[key]
        if not _takes(option.hint, value):
            came = _CAME.get(
                type(value), "a number" if isinstance(value, int | float) else "a date"
            )
            raise cyclopts.CycloptsError(
                msg=f"{place}: {key} must be {_wanted(option.hint)}; got "
                f"{json.dumps(value, default=str, ensure_ascii=False)} ({came})."
            )
        if option.tokens:
            continue
        values = value if isinstance(value, list) else [value]
        for index, one in enumerate(values):
            option.append(cyclopts.Token(keyword=key, value=str(one), source=place, index=index))
        if not values:
            option.append(cyclopts.Token(keyword=key, implicit_value=(), source=place))


def refuse_fractions(
    _: "cyclopts.App", __: tuple[str, ...], arguments: "cyclopts.ArgumentCollection"
) -> None:
    """Raise where an option that takes whole numbers is given another, which cyclopts would
    round."""
    import cyclopts

    for argument in arguments:
        parts = _parts(argument.hint)
        for token in argument.tokens if int in parts and float not in parts else ():
            if "." in token.value:
                raise cyclopts.CycloptsError(
                    msg=f"Invalid value for {argument.name}: {token.value} is no whole number."
                )


def _parts(hint: Any) -> tuple[Any, ...]:
    """The types that a type is a union of."""
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(part for part in parts if part is not type(None))


def _takes(hint: Any, value: Any) -> bool:
    """Whether an option of this type takes a value of TOML, which writes None as the command line
    does."""
    if value == "none" and type(None) in get_args(hint):
        return True
    for part in _parts(hint):
        if get_origin(part) is Literal:
            taken = value in get_args(part)
        elif get_origin(part) is tuple:
            values = value if isinstance(value, list) else [value]
            taken = all(_takes(get_args(part)[0], one) for one in values)
        else:
            taken = isinstance(value, _TAKEN[part]) and (part is bool) == isinstance(value, bool)
        if taken:
            return True
    return False


def _wanted(hint: Any) -> str:
    """What an option of this type takes, in words."""
    words = []
    for part in _parts(hint):
        if get_origin(part) is Literal:
            words += [json.dumps(choice) for choice in get_args(part)]
        elif get_origin(part) is tuple:
            words.append(f"{_wanted(get_args(part)[0])} or a list of such")
        else:
            words.append(_WANTED[part])
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
