"""``pytest --gpuemu`` in a user's test suite, with the installed plugin."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.installed_package import Installed


@pytest.fixture
def suite(kernels: Path) -> Path:
    """A project with its tests in a folder."""
    (kernels / "tests").mkdir()
    (kernels / "tests/test_mine.py").write_text("def test_mine():\n    pass\n")
    (kernels / "pytest.ini").write_text("[pytest]\ntestpaths = tests\n")
    return kernels


def _counts(output: str) -> dict[str, int]:
    last = output.strip().splitlines()[-1]
    return {what: int(number) for number, what in re.findall(r"(\d+) (\w+)", last.split(" in ")[0])}


def _pytest(installed: Installed, suite: Path, *arguments: str, expect: int = 0) -> str:
    return installed.run("python", "-m", "pytest", "-p", "no:cacheprovider", *arguments, cwd=suite, expect=expect)


def test_without_the_flag_nothing_is_collected_or_loaded(installed: Installed, suite: Path) -> None:
    (suite / "tests/test_loaded.py").write_text(
        "import sys\ndef test_loaded():\n    assert not [n for n in sys.modules if n.startswith('gpuemu_lsp.engine.')]\n"
    )
    assert _counts(_pytest(installed, suite)) == {"passed": 2}


def test_kernels_are_test_items(installed: Installed, suite: Path) -> None:
    output = _pytest(installed, suite, "--gpuemu", "-v", expect=1)
    assert _counts(output) == {"failed": 1, "passed": 2}
    assert re.search(r"gpuemu\.toml::gelu PASSED", output)
    assert re.search(r"gpuemu\.toml::gelu_buggy FAILED", output)
    line = next(n for n, text in enumerate((suite / "gelu_buggy.cu").read_text().splitlines(), 1) if "expect:" in text)
    assert f"gelu_buggy.cu:{line}:" in output
    assert "Reproduce: gpuemu reproduce" in output
    assert "Traceback" not in output


def test_kernels_are_selected_like_tests(installed: Installed, suite: Path) -> None:
    assert _counts(_pytest(installed, suite, "--gpuemu", "-k", "gelu and not buggy"))["passed"] == 1
    assert _counts(_pytest(installed, suite, "--gpuemu", "-m", "not gpuemu"))["passed"] == 1
    assert _counts(_pytest(installed, suite, "--gpuemu", "gpuemu.toml::gelu")) == {"passed": 1}
    assert _counts(_pytest(installed, suite, "--gpuemu", "tests")) == {"passed": 1}


def test_xdist_workers_share_the_kernels(installed: Installed, suite: Path) -> None:
    assert _counts(_pytest(installed, suite, "--gpuemu", "-n", "2", expect=1)) == {"failed": 1, "passed": 2}


def test_a_broken_configuration_fails_on_its_line(installed: Installed, suite: Path) -> None:
    config = suite / "gpuemu.toml"
    config.write_text(config.read_text().replace("[kernels.dims]", "dtyps = 1\n[kernels.dims]", 1))
    output = _pytest(installed, suite, "--gpuemu", expect=1)
    assert re.search(r"gpuemu\.toml:6:1: error\[config/unknown-key\]", output), output


def test_a_configuration_without_kernels_is_not_clean(installed: Installed, suite: Path) -> None:
    (suite / "gpuemu.toml").write_text('[project]\nname = "empty"\n')
    assert "nothing was checked" in _pytest(installed, suite, "--gpuemu", expect=1)


def test_an_op_that_did_not_run_is_not_clean(installed: Installed, suite: Path) -> None:
    config = suite / "gpuemu.toml"
    config.write_text(config.read_text() + '[[ops]]\nname = "attention"\nreference = "reference/elementwise.py"\n')
    output = _pytest(installed, suite, "--gpuemu", "-v", "-k", "attention", expect=1)
    assert re.search(r"gpuemu\.toml::attention FAILED", output)
    assert "To run it here, add op" in output


def test_a_kernel_that_cannot_run_is_not_clean(installed: Installed, suite: Path) -> None:
    (suite / "gelu.cu").unlink()
    output = _pytest(installed, suite, "--gpuemu", "-k", "gelu and not buggy or configuration", expect=1)
    assert "failed" in _counts(output)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(("--gpuemu-cases", "0"), "not a positive whole number"), (("--gpuemu-arch", "x"), "not an architecture")],
)
def test_bad_arguments_are_errors(installed: Installed, suite: Path, arguments: tuple[str, str], reason: str) -> None:
    assert reason in _pytest(installed, suite, "--gpuemu", *arguments, expect=4)


def test_an_interrupt_leaves_no_process(installed: Installed, suite: Path) -> None:
    """The interrupt is sent while a worker runs the reference."""
    started = suite / "started"
    (suite / "reference/elementwise.py").write_text(
        "import pathlib, time\n"
        "def gelu(inputs, **kwargs):\n"
        f"    pathlib.Path({str(started)!r}).touch()\n"
        "    time.sleep(60)\n"
    )
    (suite / "conftest.py").write_text(
        "import os, signal, threading, time\n"
        "def interrupt():\n"
        f"    while not os.path.exists({str(started)!r}):\n"
        "        time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "def pytest_runtest_call(item):\n"
        "    threading.Thread(target=interrupt, daemon=True).start()\n"
    )
    command = ("python", "-m", "pytest", "-p", "no:cacheprovider", "--gpuemu", "gpuemu.toml::gelu")
    output = installed.run(*command, cwd=suite, variables={"GPUEMU_TEST_MARK": str(suite)}, expect=2)
    assert "KeyboardInterrupt" in output
    marker = f"GPUEMU_TEST_MARK={suite}".encode()
    assert not [path for path in Path("/proc").glob("[0-9]*/environ") if marker in _read(path)]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # the process has ended or belongs to another user
        return b""
