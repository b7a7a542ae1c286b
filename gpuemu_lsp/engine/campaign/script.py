"""A stored failing case as a script to open, read and run: what it is, and the code that runs it again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.store import Store, StoreError

_FOLDER = "reproduce"
_PLAIN = re.compile(r"[^A-Za-z0-9_.-]+")

_SCRIPT = '''\
"""{title}

{facts}

Run it with the Python that has gpuemu-lsp. Exit code: 1 while it fails, 0 once it is fixed, 2 if it cannot be run.
"""

import os
import sys

from gpuemu_lsp.cli.gpuemu import main

PROJECT = {project!r}
CASE = {case!r}
KERNEL = {kernel!r}

if __name__ == "__main__":
    os.chdir(PROJECT)
    sys.exit(main(["reproduce", CASE, "--kernel", KERNEL]))
'''


def script(payload: Json) -> Iterator[Json]:
    """Write the script of one ``case`` of the project at ``root``; yield its ``path``, or ``trouble``."""
    assert isinstance(payload, dict) and isinstance(payload["root"], str) and isinstance(payload["case"], str)
    root, case = payload["root"], payload["case"]
    try:
        with Store(root) as store:
            found = store.find(case)
        if not found:
            yield {"trouble": f"there is no stored case {case}"}
            return
        failure = found[0].failure
        facts = {
            "kernel": failure.kernel,
            "dtype": failure.dtype,
            "sizes": ", ".join(f"{name} = {size}" for name, size in failure.dims.items()) or "none",
            "rule": failure.rule,
            "values": f"{failure.key.strategy}, seed {failure.key.seed}",
        }
        text = _SCRIPT.format(
            title=f"Case {case}: {_quoted(failure.message)}",
            facts="\n".join(f"    {name:8}{_quoted(value)}" for name, value in facts.items()),
            project=root,
            case=case,
            kernel=failure.kernel,
        )
        path = Path(root) / ".gpuemu" / _FOLDER / f"{_PLAIN.sub('_', failure.kernel)}_{case}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except (StoreError, OSError) as error:
        yield {"trouble": str(error)}
        return
    yield {"path": path.as_posix()}


def _quoted(text: str) -> str:
    """Return a text that can stand in a docstring."""
    return " ".join(text.split()).replace("\\", "\\\\").replace('"""', "'''")
