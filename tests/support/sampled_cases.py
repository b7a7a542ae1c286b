"""A fixed sample of large sets of tests, for the run that guards each change; `--all-cases` runs them all."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest


def add_option(parser: pytest.Parser) -> None:
    """Add ``--all-cases`` to the options of pytest."""
    # More than one of the conftest files that add it may be loaded.
    with contextlib.suppress(ValueError):
        parser.addoption("--all-cases", action="store_true", help="run every test and case, not a sample")


def keep_sample(
    config: pytest.Config,
    items: list[pytest.Item],
    cases: Callable[[str], int | None],
    tests: Callable[[str], int | None] = lambda file: None,
) -> None:
    """Deselect a part of the tests, unless ``--all-cases`` is given or a test is named on the command line.

    ``cases`` returns how many cases of a parametrised test run, given its node id without parameters; ``tests`` how
    many tests of a file, given its path. None means all of them. Tests that are marked ``in_sample`` are chosen first.
    The sample depends on names and marks alone, so that a run is repeatable, and the same on every worker of xdist.
    """
    if config.getoption("--all-cases") or any("::" in argument for argument in config.args):
        return
    kept = _sample(_sample(items, lambda item: item.nodeid.partition("[")[0], cases), _file, tests)
    chosen = set(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = kept


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def _sample(
    items: list[pytest.Item], group: Callable[[pytest.Item], str], limit: Callable[[str], int | None]
) -> list[pytest.Item]:
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group(item), []).append(item)
    kept: set[pytest.Item] = set()
    for name, members in groups.items():
        most = limit(name)
        if most is not None and len(members) > most:
            marked = [item for item in members if item.get_closest_marker("in_sample") is not None]
            others = [item for item in members if item not in marked]
            members = [*marked, *random.Random(name).sample(others, max(most - len(marked), 0))]
        kept.update(members)
    return [item for item in items if item in kept]
