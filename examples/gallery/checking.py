"""
Checking a model
================

**The chains agree. Is the model right?** Chains can agree on a wrong model. Here outcomes are
skewed, as lengths and prices are: the model fits their logarithm but gets the raw values. The
obvious baseline is to look at residuals: a test of normality of outcomes minus fitted values, on
the data of the fit.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import dualview as dv

forum = dv.datasets.agreement(n_users=20, n_threads=160, n_clusters=3, seed=2)
log_length = 0.35 * (forum.outcome - forum.outcome.mean()) / forum.outcome.std() + 3.0
length = np.exp(2.5 * log_length)

# %%
# Fit the raw outcome, then its logarithm.

fits, checks = {}, {}
for name, outcome in (("raw", length), ("log", np.log(length))):
    behavior = dv.SharedOutcome(forum.participation, outcome)
    fits[name] = dv.DualViewMixture(
        n_draws=500, engine=dv.Gibbs(max_draws=20_000), random_state=0
    ).fit(forum.features, behavior)
    checks[name] = fits[name].check(refit=False)
    print(f"{name}: {fits[name].posterior_.verdict()}")

# %%
# The checks in words, with advice:

print(checks["raw"].text())

# %%
print(checks["log"].text())

# %%
# The picture: levels of the outcomes (probability integral transforms), each predicted from all
# others. The histogram is flat if the model is right.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharey=True, layout="constrained")
for ax, name in zip(axes, checks, strict=True):
    ax.hist(checks[name].levels()["outcomes"], bins=8, density=True, color="#0072B2")
    ax.axhline(1.0, color="black", linewidth=0.8)
    ax.set(title=f"{name} outcome", xlabel="level of an outcome, given all others")
axes[0].set_ylabel("density")

# %%
# The baseline: a Shapiro–Wilk test of the residuals at the point estimates.

for name, outcome in (("raw", length), ("log", np.log(length))):
    residual = outcome - fits[name].predict_outcome(dv.SharedOutcome(forum.participation)).mean
    print(f"{name}: normality of the residuals, p = {stats.shapiro(residual).pvalue:.3f}")

# %%
# The verdict.

for name in checks:
    print(
        f"{name}: the check of skew says '{checks[name]['outcomes: skew'].verdict}', the worst "
        f"check '{checks[name].worst}'"
    )
