"""The commands as processes: standard output, exit codes, signals, imports and leftover processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jsonschema
import pytest
from support.processes import alive, descendants

SCHEMA = json.loads((Path(__file__).parents[3] / "docs" / "check-output.schema.json").read_text())
WRONG = "y[i] = 3.0f * x[i];"


def break_kernel(project):
    source = project.root / "scale.cu"
    source.write_text(source.read_text().replace("y[i] = 2.0f * x[i];", WRONG))


def test_standard_output_contains_only_json(project):
    result = project.run("--check", "--format", "json", "--cases", "3")
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    assert result.returncode == 0
    assert result.stderr == b""
    assert document["toolchain"].startswith("NVRTC ")
    assert document["kernels"][0]["cases"] == {"run": 3, "passed": 3, "assumed": 0}


def test_a_wrong_kernel(project):
    break_kernel(project)
    result = project.run("--check", "--format", "json")
    document = json.loads(result.stdout)
    jsonschema.validate(document, SCHEMA)
    assert result.returncode == 1
    errors = [finding for finding in document["findings"] if finding["severity"] == "error"]
    assert {error["rule"] for error in errors} == {"numeric/tolerance-exceeded"}
    assert {error["range"]["start"] == {"line": 5, "character": 8} for error in errors} == {True}
    assert (project.root / ".gpuemu" / "store.db").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--check", "--bogus"), 2, b"unrecognized arguments: --bogus"),
        (("--check", "--cases", "0"), 2, b"'0' is not a positive whole number"),
        (("--check", "--seed", "-1"), 2, b"not a whole number from 0"),
        (("--check", "--arch", "gfx90a"), 2, b"not an architecture such as sm_80"),
        (("--check", "--format", "yaml"), 2, b"invalid choice: 'yaml'"),
        (("--check", "scal"), 2, b"did you mean 'scale'?"),
        (("--check", "notes.txt"), 2, b"not a .cu, .hip, .py or .ipynb file"),
        (("--explain", "numeric/nam"), 2, b"did you mean 'numeric/nan'?"),
        (
            ("--check", "scale", "--cases", "2", "--output", "no/such/folder/report.txt"),
            2,
            b"No such file or directory",
        ),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, tuple) else None,
)
def test_bad_usage(project, arguments, code, says):
    (project.root / "notes.txt").write_text("")
    result = project.run(*arguments)
    assert (result.returncode, result.stdout) == (code, b"")
    assert says in result.stderr
    assert b"Traceback" not in result.stderr


def test_a_python_file_without_cuda_code_is_not_clean(project):
    result = project.run("--check", "ref.py")
    assert result.returncode == 2 and b"compiles no CUDA code from a string" in result.stdout
    (project.root / "made.py").write_text("code = '__global__ void k() {}'\n")
    (project.root / "build.py").write_text("def build(code):\n    return cp.RawKernel(code, 'k')\n")
    result = project.run("--check", "made.py", "build.py")
    assert result.returncode == 2 and b"by no function that is known" in result.stdout
    assert b"`code` is known only when the program runs" in result.stdout


def test_output_file(project):
    result = project.run("--check", "--format", "json", "--cases", "2", "--output", "report.json")
    assert (result.returncode, result.stdout) == (0, b"")
    jsonschema.validate(json.loads((project.root / "report.json").read_text()), SCHEMA)


@pytest.mark.parametrize(
    ("environment", "arguments", "coloured"),
    [
        ({}, (), False),
        ({"FORCE_COLOR": "1"}, (), True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, (), False),
        ({"FORCE_COLOR": "1", "GPUEMU_NO_COLOR": "1"}, (), False),
        ({"NO_COLOR": "1"}, ("--color", "always"), True),
        ({"FORCE_COLOR": "1"}, ("--color", "never"), False),
    ],
)
def test_colours(project, environment, arguments, coloured):
    project.write(kernel="")  # fails before compiling
    result = project.run("--check", *arguments, **environment)
    assert (b"\x1b[" in result.stdout) == coloured


def test_a_locale_without_unicode(project):
    result = project.run("--check", "--cases", "1", LC_ALL="C", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert result.returncode == 0
    assert result.stdout.isascii()
    assert b"passed" in result.stdout


def test_a_closed_pipe_is_quiet(project):
    process = project.start("--explain", "all")
    process.stdout.close()
    _, errors = process.communicate(timeout=60)
    assert errors == ""
    assert process.returncode != 0


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("--explain", "sync/hang")])
def test_help_and_explain_import_nothing_heavy(project, arguments):
    script = (
        "import sys; from gpuemu_lsp.cli.main import main; main(sys.argv[1:]);"
        "heavy = {'numpy', 'cupy', 'llvmlite', 'pygls', 'rich', 'tree_sitter', 'watchfiles'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    command = [project.command()[0], "-c", script, *arguments]
    result = subprocess.run(command, cwd=project.root, capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr
    assert result.stdout


def test_the_main_process_of_a_check_imports_nothing_heavy(project):
    script = (
        "import sys; from gpuemu_lsp.cli.main import main; code = main(['--check', '--cases', '1']);"
        "heavy = {'numpy', 'cupy', 'llvmlite', 'pygls', 'rich', 'watchfiles'} & set(sys.modules);"
        "assert not heavy, heavy; sys.exit(code)"
    )
    command = [project.command()[0], "-c", script]
    result = subprocess.run(command, cwd=project.root, capture_output=True, timeout=60)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("arguments", [["-m", "gpuemu_lsp"], ["-m", "gpuemu_lsp", "--version"]])
def test_modules_of_the_current_folder_are_not_imported(project, tmp_path, arguments):
    marker = tmp_path / "imported"
    for name in ("copy", "dataclasses", "argparse", "numpy", "json"):
        (project.root / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    command = [sys.executable, *arguments, *([] if "--version" in arguments else ["--check", "scale.cu"])]
    result = subprocess.run(command, cwd=project.root, capture_output=True, check=False)
    assert result.returncode == 0, result.stderr.decode()
    assert not marker.exists()


def test_two_checks_in_parallel(project):
    break_kernel(project)
    processes = [project.start("--check", "--format", "json", "--cases", "4") for _ in range(2)]
    for process in processes:
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 1, errors
        assert errors == ""
        assert json.loads(output)["summary"]["failed"] == 1


def test_an_interrupt_leaves_no_process(project):
    (project.root / "ref.py").write_text(
        "import os, time\n\n\ndef reference(inputs, **kwargs):\n"
        f"    open({str(project.root / 'pid')!r}, 'w').write(str(os.getpid()))\n    time.sleep(60)\n"
    )
    process = project.start("--check")
    marker = project.root / "pid"
    until(lambda: marker.exists() and marker.read_text())
    worker = int(marker.read_text())
    family = {*descendants(process.pid), worker}
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert (output, errors) == ("", "")
    until(lambda: not alive(family))


def test_watch_checks_again_after_an_edit(project):
    process = project.start("--check", "--watch", "--cases", "2")
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")), daemon=True)
    reader.start()
    try:
        until(lambda: any("1 passed" in line for line in lines))
        break_kernel(project)
        until(lambda: any("1 failed" in line for line in lines))
        source = project.root / "scale.cu"
        source.write_text(source.read_text().replace(WRONG, "y[i] = x[i] + x[i];"))
        until(lambda: sum("1 passed" in line for line in lines) == 2)
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(30)
        reader.join(10)
        errors = process.stderr.read()
        process.stdout.close()
        process.stderr.close()
    assert process.returncode == 130
    assert errors.count("Changed: scale.cu") == 2


def until(condition, seconds=60.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)
