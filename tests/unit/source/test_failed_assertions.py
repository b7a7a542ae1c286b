"""An assertion of the file that does not hold is an error of the user's, not host code that a check leaves out."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.source import device_views, without_rejected

KERNEL = "\n__global__ void k(int* p) { *p = N; }\n"


@pytest.mark.parametrize(
    ("assertion", "stays"),
    [
        ('static_assert(sizeof(int) == 8, "no");', True),
        ("static_assert(N == 8);", True),
        ("static_assert(kMissing == 8);", False),
    ],
)
def test_only_an_assertion_about_unknown_names_may_be_host_code(assertion: str, stays: bool) -> None:
    text = f"constexpr int N = 4;\n{assertion}{KERNEL}"
    views = without_rejected(device_views("/project/a.cu", text), {"/project/a.cu": {text.index("static_assert") + 3}})
    assert ("static_assert" in views.view) is stays
