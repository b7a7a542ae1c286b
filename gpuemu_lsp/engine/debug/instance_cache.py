"""Results of a method that are kept with its object, and end with it.

``functools.lru_cache`` of a method keeps the objects themselves alive: of a recording that is hundreds of megabytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def kept_results(most: int) -> Callable[[Method], Method]:
    """Return a decorator for methods that keeps the ``most`` latest results in each object, by positional arguments."""

    def decorated(method: Method) -> Method:
        name = f"_results_of_{method.__name__}"

        @wraps(method)
        def call(owner: Any, *arguments: Any) -> Any:
            results = owner.__dict__.setdefault(name, {})
            if arguments not in results:
                if len(results) >= most:
                    del results[next(iter(results))]
                results[arguments] = method(owner, *arguments)
            return results[arguments]

        return cast(Method, call)

    return decorated
