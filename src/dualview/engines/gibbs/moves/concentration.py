"""The concentration of the partition prior."""

from dualview.engines.gibbs.working import with_results
from dualview.numerics.compiling import inlined
from dualview.partitions.verbs import redraw


@inlined
def run(rng, state):
    """The state with a new concentration given the customers, unless a user had nowhere to go."""
    partition = state.partition
    if state.outcome.user_without_weight < 0:
        partition = redraw(rng, state.counts, partition)
    return with_results(state, partition, state.outcome)
