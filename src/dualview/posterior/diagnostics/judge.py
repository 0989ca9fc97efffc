"""Whether running chains have converged: repeated checks against the limits of the verdict."""

from collections.abc import Callable

from dualview.chains.progress import Watcher
from dualview.chains.schedule import Length, Look
from dualview.chains.storage import Record
from dualview.posterior import diagnostics
from dualview.posterior.posterior import Posterior


class Judge:
    """Looks at the draws of all chains so far.

    Where nobody watches, it stops at the first scalar that is out of bounds, and begins the next
    look with that one: the answer is the same, and comes sooner.

    Parameters
    ----------
    make : callable
        The posterior of some records.
    watcher : Watcher, optional
        Is told what each look has found.
    """

    def __init__(
        self, make: Callable[[list[Record], Length], Posterior], watcher: Watcher | None = None
    ) -> None:
        self._make, self._watcher = make, watcher
        self._worst = ""

    def __call__(self, records: list[Record], length: Length) -> Look:
        post = self._make(records, length)
        if self._watcher is None:
            return self._brief_look(post)
        look = post.look()
        self._watcher.looked(look, length)
        return look

    def _brief_look(self, post: Posterior) -> Look:
        scalars, looks = post.few_scalars, []
        for name in sorted(scalars, key=lambda name: name != self._worst):
            looks.append(diagnostics.look(diagnostics.table({name: scalars[name]}, brief=True)))
            if not looks[-1].good:
                self._worst = name
                return looks[-1]
        _, r_hats, sizes, times = zip(*looks, strict=True)
        return Look(True, max(r_hats), min(sizes), max(times))
