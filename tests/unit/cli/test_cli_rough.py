"""Error paths of the commands: no project, closed or full streams, interrupts during imports."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import tomli

from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.cli.process_boundary import EXIT_INTERRUPTED, guarded
from gpuemu_lsp.cli.verbs.programs import split_arguments

VERB = "gpuemu_lsp.cli.gpuemu"


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [["test"], ["ci"], ["fuzz"], ["report"], ["failures"], ["reproduce", "1"], ["minimize", "1"], ["lint"], ["coverage"],
     ["calibrate"], ["baseline", "v"], ["diff", "--baseline", "v"], ["ci", "--baseline", "v"]],
    ids=" ".join,
)  # fmt: skip
def test_without_a_project_the_next_step_is_named(empty, capsys, arguments):
    assert gpuemu(arguments) == 2
    assert "gpuemu init" in capsys.readouterr().err
    assert not list(empty.iterdir())


@pytest.mark.parametrize(
    "arguments", [["test"], ["lint"], ["coverage"], ["calibrate"], ["baseline", "v"]], ids=" ".join
)
def test_a_broken_configuration_is_shown_by_every_verb(empty, capsys, arguments):
    (empty / "gpuemu.toml").write_text("name = [[")
    assert gpuemu(arguments) == 2
    captured = capsys.readouterr()
    assert "config/syntax" in captured.out + captured.err


def test_a_full_disk_is_not_an_internal_error(project):
    with Path("/dev/full").open("w") as full:
        command = project.command("--explain", "all")
        result = subprocess.run(command, cwd=project.root, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert (result.returncode, result.stderr) == (2, "gpuemu: the result cannot be written: No space left on device\n")


def test_closed_streams(project):
    shell = 'exec "$@" 2>&-'
    result = subprocess.run(
        ["sh", "-c", shell, "sh", *project.command("lint", "-k", "nothing", module=VERB)], cwd=project.root,
        stdout=subprocess.PIPE, text=True, timeout=60,
    )  # fmt: skip
    assert (result.returncode, result.stdout) == (2, "")
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *project.command("failures", module=VERB)], cwd=project.root,
        stderr=subprocess.PIPE, text=True, timeout=60,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.parametrize("arguments", [["--check"], ["--check", "k.cu"], ["--check", "--daemon"]], ids=" ".join)
def test_a_directory_that_was_removed_is_not_an_internal_error(project, tmp_path, arguments):
    (tmp_path / "gone").mkdir()
    shell = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    command = ["sh", "-c", shell, "sh", str(tmp_path / "gone"), *project.command(*arguments)]
    result = subprocess.run(command, cwd=project.root, capture_output=True, text=True, timeout=60)
    expected = "gpuemu: the current directory has been removed; change to another one.\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", expected)


@pytest.mark.parametrize("module", ["argparse", "gpuemu_lsp.cli.process_boundary", "gpuemu_lsp.engine.store"])
def test_an_interrupt_during_imports_is_silent(project, module):
    """A finder that interrupts stands for a person who is quick."""
    script = (
        "import os, signal, sys\n"
        "class Quick:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "sys.meta_path.insert(0, Quick())\n"
        "from gpuemu_lsp.cli.start import gpuemu\n"
        "sys.argv = ['gpuemu', 'failures']\n"
        "sys.exit(gpuemu())\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=project.root, capture_output=True, text=True, timeout=60
    )
    assert (result.stdout, result.stderr) == ("", "")
    assert result.returncode in (130, -2)  # a shell shows both as 130


def test_a_wrapped_interrupt_is_an_interrupt():
    def run() -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__") from error

    assert guarded(run) == EXIT_INTERRUPTED


FILE = """\
namespace ns {{ __global__ void inner(const float* x, float* y, int n) {{ int i = threadIdx.x; if (i < n) y[i] = x[i]; }} }}
__global__ void twice(const float* x, float* y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = {factor} * x[i];
}}
"""


def test_init_registers_existing_kernels(empty, capsys):
    (empty / "sub").mkdir()
    (empty / "a.cu").write_text(FILE.format(factor="2.0f"))
    (empty / "sub" / "b.cu").write_text(FILE.format(factor="3.0f"))
    before = {path: path.read_text() for path in empty.rglob("*.cu")}
    assert gpuemu(["init", "--name", "mine"]) == 0
    assert "Registered 4 kernels" in capsys.readouterr().out
    config = tomli.loads((empty / "gpuemu.toml").read_text())
    assert config["project"]["name"] == "mine"
    assert [(item["name"], item["source"]) for item in config["kernels"]] == [
        ("inner", "a.cu"), ("twice", "a.cu"), ("b_inner", "sub/b.cu"), ("b_twice", "sub/b.cu")]  # fmt: skip
    assert {path: path.read_text() for path in before} == before and len(list(empty.rglob("*"))) == 4
    assert gpuemu(["test", "--quick", "twice", "b_twice"]) == 0
    assert "2 without a reference (no numbers compared)" in capsys.readouterr().out
    assert gpuemu(["test", "--quick", "--require-reference", "twice", "b_twice"]) == 2
    assert gpuemu(["init"]) == 2


def test_an_unusable_store_is_reported_once(project, capsys, monkeypatch):
    monkeypatch.chdir(project.root)
    wrong = (
        "__global__ void {name}(const float* x, float* y, int n) {{ int i = threadIdx.x; if (i < n) y[i] = x[i]; }}\n"
    )
    entry = '[[kernels]]\nname = "{name}"\nsource = "scale.cu"\nreference = "ref.py"\n'
    reference = "def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n"
    names = ("one", "two")
    project.write(
        kernel="".join(wrong.format(name=name) for name in names),
        toml="".join(entry.format(name=name) for name in names),
        reference=reference,
    )
    (project.root / ".gpuemu").mkdir()
    (project.root / ".gpuemu" / "store.db").write_text("no database")
    assert gpuemu(["test", "--cases", "2"]) == 1
    text = capsys.readouterr().out
    assert text.count("engine/not-stored") == 1 and "is damaged" in " ".join(text.split())
    assert "gpuemu reproduce" not in text


def test_a_missing_gpu_is_reported_without_hints(project, capsys, monkeypatch):
    from gpuemu_lsp.engine.device import available

    if available()[0]:
        pytest.skip("there is a GPU")
    monkeypatch.chdir(project.root)
    project.write(reference="def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n")
    assert gpuemu(["test", "--cases", "2", "--executor", "gpu"]) == 0
    assert "The emulator ran it instead" in capsys.readouterr().err


def test_a_python_program_is_not_recorded_which_is_said_with_what_to_do(empty, capsys):
    (empty / "script.py").write_text("print('no tensors here')\n")
    assert gpuemu(["run", "--record", "script.py"]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "are not recorded" in said and "--check FILE.py" in said


def test_an_option_of_the_program_names_where_it_goes(capsys):
    assert gpuemu(["run", "./program", "-n", "5"]) == 2
    assert "unrecognized arguments: -n 5: those of the program go after --" in capsys.readouterr().err


@pytest.mark.parametrize("words", ["-m pytest -q -m slow", "-m pytest -- -q -m slow", "-- -m pytest -q -m slow"])
def test_what_follows_a_module_belongs_to_it_as_in_python(words):
    assert split_arguments(["run", "--leaks", *words.split()]) == (
        ["run", "--leaks", "-m", "pytest"],
        ["-q", "-m", "slow"],
    )


def test_a_case_of_a_file_that_the_project_does_not_register_is_reproduced(empty, capsys):
    (empty / "gpuemu.toml").write_text('[project]\nname = "other"\n')
    (empty / "a.cu").write_text(
        "__global__ void copy(const float* x, float* y, int n) { int i = threadIdx.x; if (i <= n) y[i] = x[i]; }\n"
    )
    assert gpuemu(["test", "--quick", "a.cu"]) == 1
    case = re.search(r"gpuemu reproduce (\d+)", capsys.readouterr().out)[1]
    assert gpuemu(["reproduce", case]) == 1
    assert "no longer in the project" not in capsys.readouterr().err
