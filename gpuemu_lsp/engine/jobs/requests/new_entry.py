"""Names of a new entry of gpuemu.toml: those that neither the file nor the folder has yet."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import replace
from itertools import count
from pathlib import Path

from gpuemu_lsp.engine.subjects.request import CheckRequest


def relative_path(path: str, folder: Path) -> str:
    """Return a path as gpuemu.toml writes it: relative to the file, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()


def reference_path(source: str, kernel: str) -> str:
    """Return an unused path for a kernel's reference, in the folder of its source."""
    name = re.sub(r"\W+", "_", kernel)
    folder = Path(source).parent
    names = [f"ref_{name}.py", *(f"ref_{name}_{number}.py" for number in range(2, 100))]
    return next((folder / name).as_posix() for name in names if not (folder / name).exists())


def with_free_name(request: CheckRequest, taken: Collection[str]) -> CheckRequest:
    """Return the request of a kernel under a name that gpuemu.toml does not have yet: names are unique there."""
    spec = request.spec
    if spec.name not in taken:
        return request
    name = next(name for number in count(2) if (name := f"{spec.name}_{number}") not in taken)
    return replace(request, spec=replace(spec, name=name, entry=spec.entry or spec.name))
