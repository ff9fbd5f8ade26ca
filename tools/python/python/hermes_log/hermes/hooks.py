"""Puts other code into functions that are there: the same function objects, so that whoever imported one by name before
runs the new code as well. And takes it out again.
"""

from __future__ import annotations

from types import CodeType, FunctionType
from typing import Any, Callable

# The name under which the new code finds its way back, in the globals of the hooked module.
BACK = "__hermes_log__"


def _call_load_usage(*args: Any, **options: Any) -> Any:
    return __hermes_log__.load_usage(*args, **options)  # type: ignore[name-defined] # noqa: F821


def _call_save_usage(*args: Any, **options: Any) -> Any:
    return __hermes_log__.save_usage(*args, **options)  # type: ignore[name-defined] # noqa: F821


def _call_lock(*args: Any, **options: Any) -> Any:
    yield from __hermes_log__.lock(*args, **options)  # type: ignore[name-defined] # noqa: F821


def _call_mutate(skill_name: str, mutator: Any, *args: Any, **options: Any) -> Any:
    if not args and not options and __hermes_log__.count(skill_name, mutator):  # type: ignore[name-defined] # noqa: F821
        return None
    return __hermes_log__.mutate(skill_name, mutator, *args, **options)  # type: ignore[name-defined] # noqa: F821


def _call_forget(*args: Any, **options: Any) -> Any:
    return __hermes_log__.forget(*args, **options)  # type: ignore[name-defined] # noqa: F821


def _call_seed(*args: Any, **options: Any) -> Any:
    return __hermes_log__.seed(*args, **options)  # type: ignore[name-defined] # noqa: F821


NEW_CODE = {
    "load_usage": _call_load_usage.__code__,
    "save_usage": _call_save_usage.__code__,
    "_usage_file_lock": _call_lock.__code__,
    "_mutate": _call_mutate.__code__,
    "forget": _call_forget.__code__,
    "seed_record_if_missing": _call_seed.__code__,
}


class Hook:
    """One function with other code in it."""

    def __init__(self, function: FunctionType, code: CodeType) -> None:
        self._function = function
        self._before = (function.__code__, function.__defaults__, function.__kwdefaults__)
        copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
        copy.__kwdefaults__ = function.__kwdefaults__
        self.original: Callable[..., Any] = copy
        """A function that does what the hooked one did."""
        # Defaults first: code that takes any arguments has no use for them.
        function.__defaults__ = None
        function.__kwdefaults__ = None
        function.__code__ = code

    def remove(self) -> None:
        """Puts back what was there."""
        self._function.__code__, self._function.__defaults__, self._function.__kwdefaults__ = self._before


def plain_function(function: Any) -> FunctionType | None:
    """The function that holds the code: a context manager's generator for one of `contextlib`."""
    function = getattr(function, "__wrapped__", function)
    return function if isinstance(function, FunctionType) and not function.__code__.co_freevars else None
