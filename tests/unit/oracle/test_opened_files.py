"""Files that a reference reads: its modules and data, and nothing of Python or of this package."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.oracle.opened_files import file_digests, forget_files
from gpuemu_lsp.engine.oracle.reference import load


def read(folder: Path, script: str) -> set[str]:
    (folder / "ref.py").write_text(script, encoding="utf-8")
    forget_files()
    load(str(folder / "ref.py"))
    digests = file_digests()
    assert digests is not None
    return {Path(path).name for path in digests if path.startswith(str(folder))}


def test_modules_and_data_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from package.inner import X\n")
    (tmp_path / "package" / "inner.py").write_text("X = 1\n")
    (tmp_path / "table.txt").write_text("1 2 3\n")
    (tmp_path / "unused.py").write_text("Y = 1\n")
    script = "import json\nimport numpy as np\nfrom package import X\nfrom pathlib import Path\n"
    script += "T = np.loadtxt(Path(__file__).with_name('table.txt'))\ndef reference(inputs): return inputs['x']\n"
    assert read(tmp_path, script) == {"ref.py", "__init__.py", "inner.py", "table.txt"}


def test_a_compiled_module_counts_as_its_source(tmp_path: Path) -> None:
    import py_compile

    (tmp_path / "helper.py").write_text("X = 1\n")
    py_compile.compile(str(tmp_path / "helper.py"))
    script = "from helper import X\ndef reference(inputs): return inputs['x']\n"
    assert read(tmp_path, script) == {"ref.py", "helper.py"}


def test_a_file_that_changed_meanwhile_has_no_digest(tmp_path: Path) -> None:
    read(tmp_path, "def reference(inputs): return inputs['x']\n")
    (tmp_path / "ref.py").write_text("def reference(inputs): return 2 * inputs['x']\n")
    assert file_digests() is None
