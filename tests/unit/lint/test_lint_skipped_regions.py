"""Regions that the preprocessor certainly skips; all others count as code."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.lint.skipped_regions import skipped_regions
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("a\n#if 0\nb\n#endif\nc", "a c"),
        ("#if 0\nb\n#else\nc\n#endif", "c"),
        ("#if 1\nb\n#else\nc\n#endif", "b"),
        ("#if 1\nb\n#elif X > 2\nc\n#else\nd\n#endif", "b"),
        ("#if 0\nb\n#elif 1\nc\n#else\nd\n#endif", "c"),
        ("#if X > 2\nb\n#else\nc\n#endif", "b c"),
        ("#if X > 2\nb\n#elif 1\nc\n#else\nd\n#endif", "b c"),
        ("#ifdef UNDEFINED\nb\n#else\nc\n#endif", "c"),
        ("#ifndef UNDEFINED\nb\n#else\nc\n#endif", "b"),
        ("#if defined(UNDEFINED)\nb\n#endif\nc", "c"),
        ("#if !defined UNDEFINED\nb\n#else\nc\n#endif", "b"),
        ("#ifdef KNOWN\nb\n#else\nc\n#endif", "b c"),
        ("#ifdef __CUDA_ARCH__\nb\n#else\nc\n#endif", "b c"),
        ("#if 0\nb\n#if 1\nc\n#endif\nd\n#endif\ne", "e"),
        ("#if 1\nb\n#if 0\nc\n#endif\nd\n#endif", "b d"),
        ("#if 0\nb", "b"),
        ("#else\nb\n#endif\n#endif", "b"),
    ],
)
def test_skipped_branches(text: str, kept: str) -> None:
    prepared = SourceText(text)
    spans = list(skipped_regions(prepared, {"KNOWN"}))
    assert spans == sorted(spans)
    code = "".join(" " if any(a <= i < b for a, b in spans) else sign for i, sign in enumerate(prepared.code))
    assert " ".join(code.split()) == kept
