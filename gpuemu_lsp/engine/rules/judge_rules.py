"""Rules of the group ``judge``: what an answer to a benchmark is worth."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.rules.model import Example, Rule

RULES = (
    Rule(
        "judge/verdict",
        Severity.ERROR,
        "verdict of gpuemu judge",
        "The verdict on `ModelNew` when the editor has judged it against the task's `Model`: `differs`, `unsafe`, "
        "`hack` or `does not build`, with the reason. An answer that was not judged is information, and so are notes "
        "on one that is the same. What each verdict means is in docs/judge.md.",
        Example(
            bad="""\
class ModelNew(nn.Module):
    def forward(self, x):
        return extension.row_sums(x).half()
""",
            good="""\
class ModelNew(nn.Module):
    def forward(self, x):
        return extension.row_sums(x)
""",
            language="python",
        ),
    ),
)
