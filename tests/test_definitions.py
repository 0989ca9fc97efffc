"""What of a package some tests reach."""

import pytest

from definitions import Reached

MODULES = {
    "pkg": "def __getattr__(name):\n    return 1\n",
    "pkg.sums": (
        "from pkg.parts import half, whole as all_of_it\n"
        "SCALE = 2\n"
        "def scaled(x):\n    return SCALE * half(x)\n"
        "def other(x):\n    return all_of_it(x)\n"
        "class Kept:\n    def again(self):\n"
        "        from pkg import late\n        return late.act()\n"
        "@register\ndef written_down():\n    return 3\n"
        "table = {'a': 'pkg.sums'}\n"
        "table['b'] = 4\n"
    ),
    "pkg.parts": "def half(x):\n    return x / 2\ndef whole(x):\n    return x\nhalf(1)\n",
    "pkg.late": "def act():\n    return 5\ndef rest():\n    return 6\n",
}


def reached(text: str) -> dict[str, str] | None:
    """The lines that a test with some text reaches, by module."""
    found = Reached(MODULES.get, lambda name: name == "pkg")
    rows = found.rows(found.of_text(text))
    if rows is None:
        return None
    lines = {name: MODULES[name].splitlines() for name in rows}
    return {
        name: "\n".join("\n".join(lines[name][a - 1 : b]) for a, b in sorted(own))
        for name, own in rows.items()
    }


@pytest.mark.parametrize(
    ("text", "named", "others"),
    [
        (
            "from pkg.sums import scaled\nscaled(1)",
            {"scaled", "SCALE =", "half"},
            {"other", "Kept"},
        ),
        ("from pkg import sums\nsums.scaled(1)", {"SCALE =", "half"}, {"other", "Kept"}),
        ("from pkg import sums\nprint(sums)", {"scaled", "other", "Kept", "act", "rest"}, set()),
        ("import pkg.sums as s\ns.other(2)", {"other", "def whole"}, {"scaled", "Kept"}),
        ("from pkg.sums import Kept\ndef test(Kept):\n    pass", {"Kept", "act"}, {"other"}),
        ("from pkg.sums import Kept", set(), {"Kept", "act", "def whole"}),
        ("from pkg.sums import all_of_it as f\nf()", {"def whole"}, {"scaled"}),
        ("def test():\n    from pkg.late import act\n", {"act"}, {"rest", "scaled"}),
    ],
)
def test_definitions_are_reached_by_their_names(text: str, named: set[str], others: set[str]):
    found = reached(text)
    assert found is not None
    lines = "\n".join(found.values())
    for name in named:
        assert name in lines
    for name in others:
        assert name not in lines


def test_what_a_module_does_is_reached_wherever_it_is_imported():
    found = reached("from pkg.sums import SCALE")
    assert found is not None
    assert "written_down" in found["pkg.sums"]
    assert "table['b'] = 4" in found["pkg.sums"]
    assert found["pkg.parts"] == "def half(x):\n    return x / 2\nhalf(1)"


@pytest.mark.parametrize("text", ["import pkg\npkg.anything()", "from pkg import thing\nthing()"])
def test_a_name_that_is_looked_up_when_it_is_used_may_be_anywhere(text: str):
    assert reached(text) is None
