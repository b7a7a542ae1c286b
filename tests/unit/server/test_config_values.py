"""Values offered in gpuemu.toml, by key and by what the text already has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.server.documents.config_values import cursor_in_value, values_at

HEAD = """\
[[kernels]]
name = "one"
source = "one.cu"

[[kernels]]
name = "two"
[kernels.dims]
rows = 8
cols = { min = 1, max = 64 }
"""


def offered(tmp_path: Path, text: str) -> list[str]:
    """The values offered at the end of a text that follows two kernels."""
    (tmp_path / "one.cu").touch()
    (tmp_path / "kernels").mkdir(exist_ok=True)
    (tmp_path / "kernels" / "ref.py").touch()
    (tmp_path / ".hidden").mkdir(exist_ok=True)
    (tmp_path / ".hidden" / "x.cu").touch()
    lines = (HEAD + text).split("\n")
    line = len(lines) - 1
    cursor = cursor_in_value(lines, line, lines[line])
    if cursor is None:
        return []
    return [item.text for item in values_at(lines, (tmp_path / "gpuemu.toml").as_posix(), line, cursor)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[kernels.args]\nx = { in = ["', ["rows", "cols"]),
        ("[kernels.launch]\ngrid = ", ['"rows"', '"cols"']),
        ('[[kernels]]\nlike = "', ["one", "two"]),
        ('[[kernels]]\nsource = "', ["one.cu"]),
        ('[[kernels]]\nreference = "k', ["kernels/ref.py"]),
        ('[[kernels]]\ninclude_dirs = ["', ["kernels"]),
        ("[kernels.args]\nx = { strided = ", ["true", "false"]),
        ('[validation]\nexecutor = "', ["auto", "emulator", "gpu"]),
        ("[kernels.args]\nx = {", []),
        ("[kernels.launch]\nblock = 128  # ", []),
        ("nonsense = ", []),
    ],
)
def test_the_values_of_a_key_are_offered(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert offered(tmp_path, text) == expected


def test_names_of_types_and_architectures_are_offered_in_lists(tmp_path: Path) -> None:
    assert {"float32", "bfloat16", "int8"} <= set(offered(tmp_path, '[[kernels]]\ndtypes = ["float32", "'))
    assert "sm_90" in offered(tmp_path, '[[kernels]]\narch = "sm_')
