"""Structure of texts: tables of gpuemu.toml, and lines that can be folded."""

from __future__ import annotations

from gpuemu_lsp.server.documents.outline import Fold, config_folds, config_sections, source_folds

CONFIG = """\
[project]
name = "p"

[[kernels]]
name = "one"
args = {
}
[kernels.dims]
n = [
  1,
  2,
]

[[kernels]]
name = 'two'
"""


def test_an_entry_contains_the_tables_below_it() -> None:
    found = [(one.path, one.name, one.first, one.last) for one in config_sections(CONFIG.split("\n"))]
    assert found == [
        ("project", "", 0, 1),
        ("kernels", "one", 3, 11),
        ("kernels.dims", "", 7, 11),
        ("kernels", "two", 13, 14),
    ]


def test_tables_and_values_of_several_lines_fold() -> None:
    assert set(config_folds(CONFIG)) == {Fold(0, 1), Fold(3, 11), Fold(7, 11), Fold(8, 10), Fold(13, 14)}


def test_blocks_and_comments_of_a_source_fold_and_braces_in_strings_do_not_count() -> None:
    text = '/* a\n   {\n */\nvoid f() {\n  g("{");\n  if (x) {\n    y;\n  }\n}\nconst char* s = "/* {\\\n";\n'
    assert set(source_folds(text)) == {Fold(0, 2, comment=True), Fold(3, 7), Fold(5, 6)}
