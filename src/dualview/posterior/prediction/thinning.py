"""Some of the draws of a posterior as a posterior of its own, for what takes long."""

import numpy as np
import xarray as xr

from dualview.posterior.posterior import Posterior


def thinned(post: Posterior, most: int) -> Posterior:
    """About ``most`` draws of all chains, evenly spread; the same posterior if it has no more."""
    per_chain = max(1, most // post.n_chains)
    if per_chain >= post.n_draws:
        return post
    draws = np.unique(np.linspace(0, post.n_draws - 1, per_chain).round().astype(np.intp))
    place = np.full(post.n_draws, -1)
    place[draws] = np.arange(len(draws))
    rows = post.tree["components"].to_dataset()
    rows = rows.isel(row=place[rows["draw"].values] >= 0)
    found = xr.DataTree(
        children={
            name: xr.DataTree(post.tree[name].to_dataset())
            for name in ("working", "observed_data")
            if name in post.tree.children
        }
    )
    found.attrs = dict(post.tree.attrs)
    found["posterior"] = xr.DataTree(post.tree["posterior"].to_dataset().isel(draw=draws))
    found["components"] = xr.DataTree(rows.assign(draw=("row", place[rows["draw"].values])))
    return Posterior(found)
