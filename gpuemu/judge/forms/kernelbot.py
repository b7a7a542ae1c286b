"""Submissions to GPU MODE's KernelBot: ``custom_kernel(data)``, with ``task.yml`` and ``reference.py`` of the problem.

``task.yml`` lists the arguments with which ``generate_input`` makes the data of each test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuemu.judge.forms.fields import yaml_file
from gpuemu.judge.forms.settings import varied
from gpuemu.judge.model import Texts

_SUBMISSION = re.compile(r"^def\s+custom_kernel\b", re.M)
_TASK, _REFERENCE = "task.yml", "reference.py"


def is_submission(text: str) -> bool:
    """Return whether a text is a submission."""
    return _SUBMISSION.search(text) is not None


def problem_folder(submission: Path, references: Sequence[Path]) -> Path | None:
    """Return the folder of the problem that a submission solves: its own, or one that is named."""
    for folder in (*references, submission.absolute().parent):
        for place in (folder, folder / submission.stem, folder / submission.absolute().parent.name):
            if (place / _TASK).is_file() and (place / _REFERENCE).is_file():
                return place
    return None


def texts(submission: str, folder: Path) -> Texts:
    """Return a submission and the tests of its problem as modules.

    Raises
    ------
    FormError
        If ``task.yml`` has no list of tests.
    """
    reference = (folder / _REFERENCE).read_text(encoding="utf-8")
    settings = _settings(folder / _TASK)
    # The modules that a problem shares, such as utils.py, are in its folder or the one above.
    paths = f"import sys as _sys\n_sys.path[:0] = {[str(folder), str(folder.parent)]!r}\n"
    answer = f"{submission}\n\n{paths}{_MODEL.format(name='ModelNew', function='custom_kernel')}"
    # The submission imports them too, in its first lines.
    answer = f"import sys as _sys; _sys.path[:0] = {[str(folder), str(folder.parent)]!r}; del _sys; {answer}"
    return Texts(answer, tuple(_task_text(paths, reference, arguments) for arguments in settings))


_MODEL = """
import torch as _torch


class {name}(_torch.nn.Module):
    def forward(self, data):
        return {function}(data)
"""


def _task_text(paths: str, reference: str, arguments: Mapping[str, Any]) -> str:
    values = [f"{name}={value!r}" for name, value in arguments.items() if name != "seed"]
    if "seed" in arguments:
        values.append("seed=_torch.initial_seed() % 2**31")
    model = _MODEL.format(name="Model", function="ref_kernel")
    inputs = f"\n\ndef get_inputs():\n    return [generate_input({', '.join(values)})]\n"
    return f"{paths}{reference}\n{model}{inputs}"


def _settings(file: Path) -> list[Mapping[str, Any]]:
    """Return the arguments of the tests that are tried."""
    tests = yaml_file(file).key("tests")
    if not tests.items():
        raise tests.error("is empty")
    return varied({name: one.value for name, one in test.fields().items()} for test in tests.items())
