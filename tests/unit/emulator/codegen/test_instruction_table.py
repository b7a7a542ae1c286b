"""Every typed opcode of compiled kernels is supported, except those that ``docs/measurements/conformance.md`` lists."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from support import instruction_table as table
from support.emulator_launch import launch

from gpuemu_lsp.engine.emulator.codegen.translate import runnable
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.program import Trap
from gpuemu_lsp.engine.ptx import parse

DOCUMENT = Path(__file__).parents[4] / "docs" / "measurements" / "conformance.md"


def _is_supported(line: str) -> bool:
    program = flatten(parse(table.kernel(line)), "k")
    stops = [block.terminator for block in program.blocks if isinstance(block.terminator, Trap)]
    if any(stop.rule == "engine/unsupported-instruction" for stop in stops):
        return False
    return all(runnable(instruction) for block in program.blocks for instruction in block.code)


def _listed() -> list[str]:
    """The patterns of the list of unsupported instructions: the code spans in the first column of its table."""
    text = DOCUMENT.read_text()
    part = text[text.index("## Not run") :]
    part = part[: part.find("\n## ", 5)] if "\n## " in part[5:] else part
    return [pattern for row in re.findall(r"(?m)^\| (`[^|]+) \|", part) for pattern in re.findall(r"`([^`]+)`", row)]


def _matches(line: str, pattern: str) -> bool:
    """Whether a pattern matches the start of a line's opcode; ``*`` in ``redux.*.f32`` stands for any modifiers."""
    wanted = ".*".join(map(re.escape, pattern.split("*")))
    return re.search(rf"(?<![\w.%]){wanted}", line) is not None


TABLES = ("MEASURED", "MEMORY", "WARPS", "MATRICES", "ELSEWHERE")


@pytest.mark.parametrize("name", TABLES)
def test_unsupported_instructions_are_listed(name: str) -> None:
    listed = _listed()
    assert listed
    unlisted = []
    for line in table.lines(getattr(table, name)):
        excused = any(_matches(line, pattern) for pattern in listed)
        if _is_supported(line) == excused:
            unlisted.append(
                f"{line}: {'listed as unsupported, but supported' if excused else 'unsupported, but not listed'}"
            )
    assert not unlisted, "\n".join(unlisted)


def test_every_listed_pattern_has_an_instance() -> None:
    lines = [line for name in TABLES for line in table.lines(getattr(table, name))]
    idle = [pattern for pattern in _listed() if not any(_matches(line, pattern) for line in lines)]
    assert not idle


@pytest.mark.parametrize("name", ["MEASURED"])
def test_all_arithmetic_of_the_table_executes(name: str) -> None:
    """One kernel with all of it is translated and completes."""
    lines = table.lines(getattr(table, name))
    for start in range(0, len(lines), 120):
        some = "\n".join(f"{line};" for line in lines[start : start + 120]).rstrip(";")
        outcome = launch(table.kernel(some), 1, 32, np.zeros(4096, np.uint8))
        assert outcome.status == "completed", outcome.events
