"""What the sampler asks of a view, whatever its kind: verbs, chosen by the class of the view's
record.

A view is a record (a NamedTuple) that holds its users' vectors, a column for every component and
what the components share. Columns are clusters, auxiliary components and free room. A kind
registers a function for each verb it knows (:func:`dualview.numerics.dispatch.register`); the body
of an optional verb stands in for kinds that have none. Functions change arrays in place; what
cannot be changed in place they return as a new record. z (U,): the column of every user. table (C,
n): log weights of users from ``offset`` on.

The last view of a sampler is that of the latent vectors, and knows the verbs under *latent* as
well. The verbs under *splitting* belong to records that ``split_start`` makes; views of a kind
without it take part in no splits and merges, nor do the others beside them. ``expected_score`` and
``absorb`` belong to records of a variational approximation, and are called from Python only.
"""

from dualview.numerics.dispatch import (
    each,
    each_by,
    each_where,
    in_turn,
    in_turn_by,
    optional_verb,
    total,
    total_where,
    verb,
)


@verb
def redraw(rng, z, view):
    """Components and what they share; returns the view."""


@verb
def sums(z, first, end, view):
    """What the users from first to end say about the components, summed up: a record, for parts of
    the users at a time."""


@verb
def join_sums(sums, more):
    """In place on the first: the sums of two parts."""


@verb
def redraw_from(rng, sums, view):
    """``redraw``, from the sums over all users."""


@verb
def open_columns(rng, n_auxiliary, n_room, marginal, view):
    """The view with more columns: auxiliary components from the base, then free room.

    marginal: what can be integrated out of auxiliary components is.
    """


@verb
def open_column(rng, column, view):
    """In place: a column becomes an auxiliary component from the base."""


@optional_verb
def retire(column, view):
    """In place: a cluster without users becomes an auxiliary component."""


@optional_verb
def adopt(rng, u, column, view):
    """In place: user u has opened an auxiliary component; what was integrated out of it is drawn,
    given its vector."""


@verb
def grow(view):
    """The view with as many columns again, all free."""


@verb
def compact(counts, n_kept, view):
    """The view with the n_kept occupied columns only."""


@verb
def score(table, offset, first, end, column, view):
    """In place: add ln p(vector of user u | column) to the table, for users u from first to end."""


@optional_verb
def complete(rng, u, column, view):
    """In place: what is not observed of user u's vector, given its column; integrated out of the
    user's scores or not."""


@optional_verb
def degenerate(view):  # noqa: ARG001
    """Whether the view's clusters have shrunk onto single points, or its numbers are none any
    more."""
    return False


@verb
def expected_score(table, vectors, factors):
    """In place: add E ln p(vector of user u | component k) to the table (K, U), the expectation
    under q.

    factors: the record of q of the view's components. vectors: ``SoftVectors``, what q says of the
    users' vectors.
    """


@verb
def absorb(responsibilities, vectors, factors):
    """Sums over users, weighted by responsibilities (K, U), of what q of the view's components is
    updated from: a record."""


@verb
def log_density(z, start, view):
    """start + ln p(vectors, components, base | z), up to a constant."""


@optional_verb
def base_width(view):  # noqa: ARG001
    """How many numbers ``put_base`` packs."""
    return 0


@optional_verb
def put_base(row, at, view):  # noqa: ARG001
    """In place: what the components share into a row from a place on; returns the place after
    it."""
    return at


@verb
def component_width(view):
    """How many numbers ``put_component`` packs."""


@verb
def put_component(row, at, column, view):
    """In place: a component into a row from a place on; returns the place after it."""


# Latent


@verb
def rescale_and_shift(rng, z, terms, view):
    """Moves of the view's parameters together with the latent vectors, before the components are
    redrawn; returns the view."""


@verb
def redraw_latent(rng, z, terms, view):
    """``redraw`` of a view of latent vectors; where users share vectors, these move with it.
    Returns the view."""


@verb
def add_log_marginal(exponents, weights, message, view):
    """In place: what a user's observations say about each column that has a weight, its latent
    vector integrated out."""


@verb
def draw_user_latent(rng, u, column, message, view):
    """In place: the latent vector of user u, now of this column, given the message; message.step is
    how far it moved."""


# Splitting


@verb
def split_start(z, counts, view):
    """A record of what splits and merges need to know: every cluster's, and room for sets A, B and
    C of users, s = 0, 1, 2."""


@verb
def splittable(split):
    """Whether weights keep their digits."""


@verb
def set_user(s, u, split):
    """In place: set s has one user."""


@verb
def set_column(s, column, split):
    """In place: set s is a cluster, and has its parameters."""


@verb
def set_both(n, column, n_column, split):
    """In place: C is A, of n users, with a cluster of n_column users."""


@verb
def join(u, s, n, split):
    """In place: user u joins set s, of n users."""


@verb
def learn(column, z, split):
    """In place: what is known about a cluster that has changed."""


@verb
def propose(rng, s, n, split):
    """In place: the parameters of a new set."""


@verb
def log_weight(s, n, split):
    """ln of the density of a set's n vectors and parameters over that of the proposal, up to what
    adds up over users."""


@verb
def level(s, n, split):
    """The part of a set's attraction that does not depend on who is attracted."""


@verb
def distance(u, s, n, split):
    """The part of a set's attraction that does, as a penalty."""


@verb
def squared_distance(own, is_set, column, to_set, split):
    """Between two averages, of sets or of clusters, in units of what clusters of this view are
    wide."""


@verb
def accept(rng, column, s, n, split):
    """In place: a column becomes the cluster of set s."""


open_columns_each, open_column_each, grow_each = each(open_columns), each(open_column), each(grow)
retire_each, adopt_each, compact_each = each(retire), each(adopt), each(compact)
degenerate_each, splittable_each = each(degenerate), each(splittable)
set_user_each, set_column_each = each(set_user), each(set_column)
total_squared_distance = total(squared_distance)
base_widths, component_widths = total(base_width), total(component_width)
put_bases, put_components = in_turn(put_base), in_turn(put_component)

# For views with labels of their own: rows of labels (G, U), and which row is a view's.
redraw_by, score_by, complete_by = (
    each_by(redraw, "z"),
    each_by(score, "table"),
    each_by(complete, "column"),
)
log_densities_by, split_start_by = in_turn_by(log_density, "z"), each_by(split_start, "z")
learn_by, propose_by, accept_by = each_by(learn, "z"), each_by(propose, "n"), each_by(accept, "n")
set_both_by, join_where = each_by(set_both, "n", "n_column"), each_where(join, "n")
log_weight_where, level_where = total_where(log_weight, "n"), total_where(level, "n")
distance_where = total_where(distance, "n")
