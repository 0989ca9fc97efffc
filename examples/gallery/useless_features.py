"""
Features unrelated to behavior
==============================

**What if features have nothing to do with behavior?** A null result, on purpose: forums like that
of :doc:`roles`, with the rows of the features shuffled among the users. The baseline is a model
without features (``X=None``, all users in one cluster), which they cannot mislead.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import dualview as dv

gains, converged = {"true features": [], "shuffled features": []}, []
for seed in range(3):
    forum = dv.datasets.agreement(n_users=24, n_threads=60, n_clusters=3, seed=seed)
    behavior = dv.SharedOutcome(forum.participation, forum.outcome)
    settings = {"n_draws": 500, "engine": dv.Gibbs(max_draws=20_000), "random_state": seed}
    single = dv.DualViewMixture(1, **settings).fit(None, behavior)
    floor = single.predict_outcome(forum.test.participation).nll(forum.test.outcome)
    shuffled = np.random.default_rng(seed).permutation(forum.features)
    for name, X in (("true features", forum.features), ("shuffled features", shuffled)):
        model = dv.DualViewMixture(**settings).fit(X, behavior)
        gains[name].append(
            floor - model.predict_outcome(forum.test.participation).nll(forum.test.outcome)
        )
        converged.append(model.posterior_.converged)
print(f"{sum(converged)} of {len(converged)} fits have converged.")

# %%
# The gain over the model without features, in nats per later thread. Above 0, features help.

for name, values in gains.items():
    error = np.std(values, ddof=1) / np.sqrt(3)
    print(
        f"{name:<18} {np.mean(values):+.3f} ± {error:.3f}   "
        f"({', '.join(f'{v:+.2f}' for v in values)})"
    )

# %%
# The picture.

figure, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for y, (values, marker) in enumerate(zip(gains.values(), "o^", strict=True)):
    ax.scatter(values, np.full(3, y), marker=marker, s=40)
ax.axvline(0.0, color="black", linewidth=0.8)
ax.set_yticks(range(2), gains)
ax.set_ylim(-0.6, 1.6)
ax.set_xlabel("gain over no features, nats per later thread")

# %%
# The verdict.

lost = np.mean(gains["shuffled features"])
error = np.std(gains["shuffled features"], ddof=1) / np.sqrt(3)
word = (
    "no clear difference"
    if abs(lost) < stats.t.ppf(0.975, 2) * error  # of three forums
    else "a clear gain"
    if lost > 0
    else "a clear loss"
)
print(f"Useless features: {lost:+.3f} ± {error:.3f} nats per thread over three forums, {word}.")
