"""Distributions of a number of clusters or of components, 1, 2, …"""

from typing import ClassVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dualview.checks import interval_ends

Array = NDArray[np.float64]


class WholeNumber:
    """A number with ``probabilities`` of 1, 2, …"""

    probabilities: Array
    what: ClassVar[str]

    @property
    def mean(self) -> float:
        """The expected number."""
        return float(self.probabilities @ np.arange(1, len(self.probabilities) + 1))

    def quantile(self, level: float) -> int:
        """The least number that is not exceeded with at least this probability."""
        place = int(np.searchsorted(np.cumsum(self.probabilities), level - 1e-12))
        return min(place, len(self.probabilities) - 1) + 1

    def interval(self, probability: float = 0.9) -> tuple[int, int]:
        """The numbers between which it is with this probability, with equal tails."""
        low, high = interval_ends(probability)
        return self.quantile(low), self.quantile(high)

    def table(self) -> pd.DataFrame:
        """The probability of each number, and of that many or more; up to the 0.999 quantile."""
        n = self.quantile(0.999)
        at_least = self.probabilities[::-1].cumsum()[::-1]
        columns = {"probability": self.probabilities[:n], "at_least": at_least[:n]}
        return pd.DataFrame(columns, index=pd.Index(np.arange(1, n + 1), name=self.what))
