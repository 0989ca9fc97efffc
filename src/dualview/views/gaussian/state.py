"""Everything a Gaussian view learns, as the rest of the package sees it."""

from typing import Any, NamedTuple

import numpy as np

from dualview.views.base import Array, Base, Components


class GaussianState(NamedTuple):
    """Everything a Gaussian view learns. cells (n,): values of the cells that are not exact, in the
    data's units."""

    components: Components
    base: Base
    cells: Array = np.empty(0)

    @property
    def component_parts(self) -> dict[str, Array]:
        return self.components._asdict()

    @property
    def base_parts(self) -> dict[str, Any]:
        parts = {f"base_{name}": value for name, value in self.base._asdict().items()}
        return parts | {"cells": self.cells} if len(self.cells) else parts

    @property
    def n_components(self) -> int:
        return len(self.components.means)
