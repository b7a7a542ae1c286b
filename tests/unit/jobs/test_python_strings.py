"""Files with CUDA code in strings of every form: one bug each, found on its line and column, and none when corrected."""

from __future__ import annotations

import json
import shutil

import pytest
from support.python_strings import BUGS, FOLDER

from gpuemu_lsp.cli.main import main as gpuemu_lsp


def checked(folder, name, *options):
    output = folder / "out.json"
    code = gpuemu_lsp(["--check", str(folder / name), "--format", "json", "--output", str(output), *options])
    return code, json.loads(output.read_text(encoding="utf-8"))


@pytest.mark.parametrize("line_end", ["\n", "\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("name", BUGS)
def test_the_bug_is_at_its_line_and_column(name, line_end, tmp_path):
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    where, statement, (_, _) = BUGS[name]
    for path in tmp_path.rglob("*.[pc]*"):
        if path.is_file():
            path.write_bytes(path.read_bytes().replace(b"\n", line_end.encode()))
    code, report = checked(tmp_path, name)
    errors = [one for one in report["findings"] if one["severity"] == "error"]
    assert code == 1 and errors, report["findings"]
    lines = (tmp_path / where).read_bytes().split(b"\n")
    (expected,) = [number for number, line in enumerate(lines) if b"expect:" in line]
    first = errors[0]
    start, end = first["range"]["start"], first["range"]["end"]
    assert first["path"].endswith(where.rsplit("/", 1)[-1]) and start["line"] == expected
    assert first["rule"] in lines[expected].decode()
    assert end["line"] == expected
    # As in LSP, the report's columns count UTF-16 units.
    units = lines[expected].decode().encode("utf-16-le")
    text = units[2 * start["character"] : 2 * end["character"]].decode("utf-16-le")
    assert text.removesuffix(";") == statement


@pytest.mark.parametrize("name", BUGS)
def test_the_corrected_kernel_has_no_finding(name, tmp_path):
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    where, _, (wrong, right) = BUGS[name]
    for path in (tmp_path / where, tmp_path / name):
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace(wrong, right), encoding="utf-8")
    code, report = checked(tmp_path, name)
    assert code == 0 and [kernel["status"] for kernel in report["kernels"]] == ["unreferenced"], report["findings"]
    assert not [one for one in report["findings"] if one["severity"] in ("error", "warning")]


def test_the_comments_of_the_files_announce_their_bugs(tmp_path, capsys):
    shutil.copytree(FOLDER, tmp_path, dirs_exist_ok=True)
    assert gpuemu_lsp(["--check", str(tmp_path / "raw_kernel.py"), "--expect"]) == 0
    text = (tmp_path / "raw_kernel.py").read_text(encoding="utf-8")
    (tmp_path / "raw_kernel.py").write_text(text.replace("i <= n", "i < n"), encoding="utf-8")
    assert gpuemu_lsp(["--check", str(tmp_path / "raw_kernel.py"), "--expect"]) == 1
    assert "expected memory/out-of-bounds, which was not found" in "".join(capsys.readouterr())
