"""Methods of an estimator that one of its engines has."""

from collections.abc import Callable
from functools import update_wrapper
from types import MethodType
from typing import Any

from dualview.errors import EngineError
from dualview.settings import EngineSettings


def of_engine(engine: str) -> Callable[[Callable[..., Any]], Any]:
    """Decorates a method that only one engine has: with others ``hasattr`` is False, and the error
    names both engines."""
    return lambda method: _OfEngine(method, engine)


class _OfEngine:
    """The descriptor of such a method."""

    def __init__(self, method: Callable[..., Any], engine: str) -> None:
        self.method, self.engine = method, engine
        shown: Any = self
        update_wrapper(shown, method)  # documentation and examples are the method's

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.method
        engine = (
            instance.engine.word
            if isinstance(instance.engine, EngineSettings)
            else (instance.engine)
        )
        if engine != self.engine:
            name = self.method.__name__
            raise EngineError(
                f'{name} is a method of engine="{self.engine}"; this estimator has '
                f'engine="{engine}". Set '
                f'engine="{self.engine}", or call fit with all data.'
            )
        return MethodType(self.method, instance)
