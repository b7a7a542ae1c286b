"""The examples: what is correct is silent, each planted bug is found on its line, with all places named."""

from __future__ import annotations

import json
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "torch"


def planted(source: Path) -> dict[int, str]:
    """Return the rules of the planted bugs by line, 0-based."""
    marks = (re.search(r"(?://|#) bug: ([\w/-]+)", line) for line in source.read_text().splitlines())
    return {number: mark[1] for number, mark in enumerate(marks) if mark is not None}


@pytest.fixture
def run_json(gpuemu_run, tmp_path):
    def run(*words, folder=None):
        path = tmp_path / "result.json"
        done = gpuemu_run("--format", "json", "--output", str(path), *words, folder=folder)
        assert path.is_file(), done.stderr
        return done, json.loads(path.read_text())

    return run


def test_a_correct_extension_by_load_inline_is_silent(run_json):
    done, result = run_json(str(EXAMPLES / "inline" / "row_sums.py"))
    assert (done.returncode, done.stdout) == (0, "all sums are right\n"), done.stderr
    assert result["findings"] == []
    assert result["launches"] == result["checked"] == 5


def test_the_bugs_of_an_extension_are_on_the_lines_of_its_string(run_json):
    source = EXAMPLES / "inline" / "row_sums_buggy.py"
    done, result = run_json(str(source))
    assert done.returncode == 1
    found = {one["range"]["start"]["line"]: one for one in result["findings"]}
    assert {line: one["rule"] for line, one in found.items()} == planted(source)
    lines = source.read_text().splitlines()
    for line, one in found.items():
        assert one["path"].endswith("row_sums_buggy.py")
        related = {place["message"].split(",")[0]: lines[place["range"]["start"]["line"]] for place in one["related"]}
        if one["rule"].startswith("memory/"):
            (launch,) = (text for message, text in related.items() if message.startswith("launched here as"))
            assert (
                "<<<" in launch or "AT_DISPATCH" in launch
            )  # the line of a launch in a macro's argument is the macro's
            assert "extension." in related["called here"]
        if line == next(number for number, rule in planted(source).items() if rule == "memory/out-of-bounds"):
            assert "torch.rand(5, 300" in related["6000 bytes"]


def test_launches_of_triton_and_cuda_share_a_device_in_two_runs_at_once(gpuemu_run, tmp_path):
    def run(number):
        path = tmp_path / f"{number}.json"
        source = str(EXAMPLES / "mixed" / "rows.py")
        return gpuemu_run("--format", "json", "--output", str(path), source), json.loads(path.read_text())

    # Both build the same extension in the same folder.
    with ThreadPoolExecutor(2) as pool:
        for done, result in pool.map(run, range(2)):
            assert (done.returncode, done.stdout) == (0, "all rows are right\n"), done.stderr
            assert result["findings"] == []
            # Each configuration of the autotuner runs once, and then the first.
            assert result["launches"] == result["checked"] == 6


def test_the_bugs_of_triton_and_cuda_are_on_their_lines(run_json):
    source = EXAMPLES / "mixed" / "rows_buggy.py"
    done, result = run_json(str(source))
    assert done.returncode == 1
    assert {one["range"]["start"]["line"]: one["rule"] for one in result["findings"]} == planted(source)
    lines = source.read_text().splitlines()
    for one in result["findings"]:
        related = {place["message"].split()[0]: lines[place["range"]["start"]["line"]] for place in one["related"]}
        assert any(launch in related["launched"] for launch in ("_rows<<<", "_rows[(4,)]", "negate[(2,)]"))
        (allocation,) = (text for message, text in related.items() if message.isdigit())
        assert re.search(r"torch(\.|::)(rand|empty)", allocation)


def test_an_extension_by_setup_py_is_built_and_tested(run_json, tmp_path):
    folder = tmp_path / "extension"
    shutil.copytree(EXAMPLES / "extension", folder)
    done, _ = run_json("setup.py", "--", "build_ext", "--inplace", folder=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    done, result = run_json("-m", "pytest", folder=folder)
    assert "1 failed, 1 passed" in done.stdout
    (one,) = result["findings"]
    assert (one["rule"], Path(one["path"]).name) == ("memory/out-of-bounds", "segments_kernel.cu")
    assert (
        "for (int i = begin_of"
        in (folder / "segments_kernel.cu").read_text().splitlines()[one["range"]["start"]["line"]]
    )
    places = {(Path(place["path"]).name, place["range"]["start"]["line"]) for place in one["related"]}
    (call,) = planted(folder / "test_segments.py")
    assert {("test_segments.py", call), ("test_segments.py", call - 2)} <= places
    assert any(name == "segments_kernel.cu" for name, _ in places)


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [("solution", 0, "same"), ("solution_wrong_stride", 1, "as given: the answer changes its input")],
)
def test_an_answer_is_compared_with_its_task(gpuemu_run, answer, status, said):
    done = gpuemu_run("compare.py", "--", answer, folder=EXAMPLES / "model")
    assert done.returncode == status, done.stdout + done.stderr
    assert said in done.stdout + done.stderr
