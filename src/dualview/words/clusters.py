"""The clusters of a fit in words: their names, and the summary as a text and as a table.

A summary is what ``posterior.summaries.summarize`` makes: plain values, which a file can hold.
"""

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dualview.files.html import small_table
from dualview.words.numbers import counted, estimate, number, share

Summary = dict[str, Any]

_WIDTH = 80
_MOST_AT_LENGTH = 12  # clusters
_FEWEST_MEMBERS = 3  # of a cluster described at length
_MOST_IN_SHORT = 20
_MOST_PHRASES = 6


def n_draws(summary: Summary) -> int:
    """Draws of all chains that were kept whole."""
    return int(summary["chains"] * summary["draws_per_chain"])


def n_at_length(sizes: Sequence[int]) -> int:
    """How many clusters, from the largest, are worth more than a line."""
    return max(1, min(_MOST_AT_LENGTH, sum(size >= _FEWEST_MEMBERS for size in sizes)))


def distinct_names(phrases: Sequence[Sequence[str]], shown: Sequence[int]) -> list[str]:
    """A name for each cluster, no two of them alike.

    It is made of the cluster's first phrases: as many as ``shown`` says, more where others have the
    same name, and then its number.

    >>> distinct_names([["old", "rich"], ["old", "poor"], ["young"], ["young"]], [1, 1, 1, 1])
    ['old, rich', 'old, poor', 'young (2)', 'young (3)']
    """
    lengths = list(shown)
    while True:
        names = [", ".join(own[:n]) for own, n in zip(phrases, lengths, strict=True)]
        times = Counter(names)
        longer = [
            k for k, name in enumerate(names) if times[name] > 1 and lengths[k] < len(phrases[k])
        ]
        if not longer:
            return [f"{name} ({k})" if times[name] > 1 else name for k, name in enumerate(names)]
        for k in longer:
            lengths[k] += 1


def traits_text(out: Sequence[str], others: Sequence[str]) -> str:
    """What stands out in a cluster, and its medians of other columns, as far as there is room."""
    room = max(0, _MOST_PHRASES - len(out))
    more = len(out[_MOST_PHRASES:])
    first = ", ".join(out[:_MOST_PHRASES]) + (f" and {more} more" if more else "")
    second = ", ".join(others[:room])
    return "; ".join(part for part in (first or "ordinary", second) if part)


def latents_by_name(cluster: Summary) -> dict[str, dict[str, float]]:
    """Each latent coefficient of a cluster, as the summary has it; a single one has no name."""
    latent = cluster.get("latent", {})
    if not isinstance(latent.get("median", {}), dict):
        return {"latent": latent}
    return {f"latent {name}": mean for name, mean in latent.items()}


def latent_texts(cluster: Summary) -> dict[str, str]:
    """Each latent coefficient of a cluster with its 95 % interval, by name."""
    found = {}
    for name, mean in latents_by_name(cluster).items():
        texts = estimate(mean)
        found[name] = f"{texts['median']} ({texts['low']} to {texts['high']})"
    return found


def summary_text(summary: Summary) -> str:
    """The summary for a terminal, 80 columns wide."""
    clusters = summary["clusters"]
    n_long = n_at_length([cluster["size"] for cluster in clusters])
    lines = [
        f"{_title(summary)} ({summary['clusters_in_an_average_draw']:.1f} in an average draw); "
        f"{summary['chains']} chains of {summary['draws_per_chain']} "
        f"draws{_length_text(summary['length'])}."
    ]
    lines += _priors(summary)
    found = [_wrapped(line) for line in lines]
    found += ["", *("\n".join(_at_length(cluster)) for cluster in clusters[:n_long])]
    found += _in_short(clusters[n_long:])
    return "\n".join([*found, "", *(_wrapped(text) for text in _notes(summary))])


def _priors(summary: Summary) -> list[str]:
    """The prior over partitions in sentences. Summaries of earlier versions say less."""
    found, process = [], summary.get("process")
    if process is not None:
        found.append(f"Prior over partitions: {process}.")
    if summary["alpha_prior"] is not None:
        is_finite = process is not None and process.startswith("finite")
        what = "weight gamma of a component" if is_finite else "concentration alpha"
        found.append(f"Prior of the {what}: {summary['alpha_prior']}.")
    discount = summary.get("discount")
    if discount is not None:
        low, high = discount["middle"]
        found.append(
            f"Discount: {discount['mean']:.2f} on average, nine in ten draws between {low:.2f} "
            f"and {high:.2f}."
        )
    return [*found, *number_sentences(summary, "clusters")]


def number_sentences(summary: Summary, groups: str) -> list[str]:
    """How many clusters the prior expects, and how many components a mixture of finite mixtures
    has; nothing of what was not asked."""
    found, prior, components = [], summary.get("prior_clusters"), summary.get("components")
    if prior is not None:
        drawn = "" if prior["n_draws"] is None else f" ({prior['n_draws']:,} draws from the prior)"
        found.append(
            f"Before any data the prior expects {_number_text(prior, groups)} with probability "
            f"0.9{drawn}."
        )
    if components is not None:
        found.append(
            f"With those that have no users, {_number_text(components, 'components')} with "
            "posterior probability 0.9."
        )
    return found


def _number_text(number: dict[str, Any], what: str) -> str:
    low, high = number["middle"]
    span = str(low) if low == high else f"{low} to {high}"
    return f"{number['mean']:.1f} {what} on average, and {span}"


def _title(summary: Summary) -> str:
    n_clusters = counted(len(summary["clusters"]), "cluster", "clusters")
    return f"{counted(summary['users'], 'user', 'users')} in {n_clusters}"


def _notes(summary: Summary) -> list[str]:
    notes = (summary[name] for name in ("certainty", "agreement", "verdict"))
    return [note for note in notes if note is not None]


def _wrapped(text: str, indent: str = "", hanging: str = "") -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _at_length(cluster: Summary) -> list[str]:
    """A cluster in a few lines."""
    facts = f"{_size_text(cluster)}, certainty {share(cluster['certainty'])}"
    latent = ", ".join(f"{name} {text}" for name, text in latent_texts(cluster).items())
    people = "Its member" if cluster["size"] == 1 else "Typical"
    parts = [facts, latent, cluster["words"], f"{people}: {', '.join(cluster['typical_users'])}"]
    head = f"Cluster {cluster['cluster']}: {cluster['name']}"
    return [_wrapped(head, "", "  "), *(_wrapped(part, "  ", "  ") for part in parts if part)]


def _size_text(cluster: Summary) -> str:
    return f"{counted(cluster['size'], 'user', 'users')} ({share(cluster['share'])})"


def _in_short(clusters: Sequence[Summary]) -> list[str]:
    """Small clusters in a line each, and how many more there are."""
    lines = [
        _wrapped(
            f"Cluster {cluster['cluster']}: {cluster['name']}; {_size_text(cluster)}: "
            f"{', '.join(cluster['typical_users'])}",
            "",
            "  ",
        )
        for cluster in clusters[:_MOST_IN_SHORT]
    ]
    rest = clusters[_MOST_IN_SHORT:]
    if rest:
        users = counted(sum(cluster["size"] for cluster in rest), "user", "users")
        lines.append(f"And {counted(len(rest), 'cluster', 'clusters')} more, of {users} together.")
    return lines


def _length_text(length: dict[str, Any] | None) -> str:
    """How long chains were that were not of fixed length, and what ended them before they had
    converged."""
    if length is None or length["ended"] == "length":
        return ""
    ended = {
        "max_time": "; the time ran out",
        "max_draws": "; the limit of draws was reached",
        "interrupted": "; interrupted",
    }
    stride = length["stride"]
    apart = "an iteration apart" if stride == 1 else f"{stride} iterations apart"
    return (
        f", {apart}, after {length['n_warmup']:,} of "
        f"{length['n_iterations']:,} iterations as warm-up{ended.get(length['ended'], '')}"
    )


def summary_html(summary: Summary) -> str:
    """The summary for a notebook: a table with a row for each cluster."""
    clusters = summary["clusters"]
    latents = list(latent_texts(clusters[0]))
    head = ["", "name", "users", "share", "certainty", *(f"{name} (95 %)" for name in latents)]
    rows = [
        (
            cluster["cluster"],
            cluster["name"],
            f"{cluster['size']:,}",
            share(cluster["share"]),
            share(cluster["certainty"]),
            *latent_texts(cluster).values(),
            cluster["words"],
            ", ".join(cluster["typical_users"]),
        )
        for cluster in clusters
    ]
    note = " ".join(_notes(summary))
    return small_table(_title(summary), rows, [*head, "what stands out", "typical users"], note)


def value_text(value: float | str) -> str:
    """A median: a number, or the name of a level."""
    return value if isinstance(value, str) else number(value)
