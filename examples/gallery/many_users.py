"""
Many users
==========

**What does a fit to thousands of users cost, and is it worth it?** A simulated forum of 2,000 users
and 10,000 threads with six participants each. Users belong to ten groups, and have eight features
and an individual power. ``engine="variational"`` approximates the posterior, much faster than
chains sample it. The baseline is a sparse ridge regression, which takes a second.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge

import dualview as dv

rng = np.random.default_rng(0)
n_users, n_threads, size = 2000, 10_000, 6
group = rng.integers(0, 10, n_users)
features = 1.5 * rng.normal(size=(10, 8))[group] + rng.normal(size=(n_users, 8))
power = rng.normal(0.0, 1.0, 10)[group] + 0.3 * rng.normal(size=n_users)
who = np.array([rng.choice(n_users, size, replace=False) for _ in range(n_threads)])
participation = sparse.csr_array(
    (np.ones(who.size), who.ravel(), np.arange(0, who.size + 1, size)), (n_threads, n_users)
)
noise_sd = 1.5
outcome = participation @ power + noise_sd * rng.normal(size=n_threads)
train = np.arange(n_threads) < 8000

# %%
# Fit. The time includes compilation, if no such fit has been made on the machine before.

behavior = dv.SharedOutcome(participation[train], outcome[train])
began = time.process_time()
model = dv.DualViewMixture(engine="variational", n_draws=250, n_chains=2, random_state=0).fit(
    features, behavior
)
print(f"{time.process_time() - began:.0f} seconds of CPU")
print(model.posterior_.verdict())

# %%
# The baselines: ridge regression on participation only, and with the sums of the participants'
# features as additional columns.

added = sparse.csr_array(participation @ features)
both = sparse.hstack([participation, added]).tocsr()


def ridge(matrix):
    """Ridge regression, with the penalty chosen on the last 1,000 training threads."""
    first, last = slice(0, 7000), slice(7000, 8000)

    def error(alpha):
        found = Ridge(alpha, solver="sparse_cg").fit(matrix[first], outcome[first])
        return np.mean((found.predict(matrix[last]) - outcome[last]) ** 2)

    return Ridge(min((1.0, 3.0, 10.0, 30.0, 100.0), key=error), solver="sparse_cg").fit(
        matrix[train], outcome[train]
    )


rivals = {
    "ridge": (ridge(participation), participation),
    "ridge with features": (ridge(both), both),
}
errors = {"dualview": model.predict_outcome(participation[~train]).mean - outcome[~train]}
for name, (rival, matrix) in rivals.items():
    errors[name] = rival.predict(matrix[~train]) - outcome[~train]
ridge_power = rivals["ridge"][0].coef_
print(
    f"RMSE of {np.sum(~train):,} later threads; the noise alone has a standard deviation of "
    f"{noise_sd}"
)
for name, error in errors.items():
    print(f"{name:<20} {np.sqrt(np.mean(error**2)):.3f}")

# %%
# The picture: true and estimated powers.

figure, axes = plt.subplots(1, 2, figsize=(8, 4), sharex=True, sharey=True, layout="constrained")
for ax, (name, found) in zip(
    axes, (("dualview", model.latent_), ("ridge", ridge_power)), strict=True
):
    ax.scatter(power, found, s=2, alpha=0.3)
    ax.plot([-3, 3], [-3, 3], color="black", linewidth=0.8)
    ax.set(title=f"{name}: correlation {np.corrcoef(power, found)[0, 1]:.2f}", xlabel="true power")
axes[0].set_ylabel("estimated power")

# %%
# The verdict.

best = min(errors, key=lambda name: np.mean(errors[name] ** 2))
print(f"{best} predicts best.")
print(f"Estimated clusters: {model.n_clusters_}, true: {len(set(group))}.")

# %%
# :doc:`/benchmarks` has measurements with a million users and ten million threads.
