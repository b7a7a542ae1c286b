"""Programs that make tensor maps, compiled for sm_90a: right, and the maps that the driver refuses or does not check."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from test_programs import GPUEMU, HERE, toolchain  # noqa: F401 - the fixture skips without nvcc

SOURCE = (HERE / "clean/tensor_map.cu").read_text()
ENCODE = next(number for number, line in enumerate(SOURCE.splitlines()) if "CUresult status = encode(" in line)


def run(folder: Path, text: str) -> tuple[subprocess.CompletedProcess[str], list[dict]]:
    (folder / "program.cu").write_text(text)
    output = folder / "result.json"
    words = ("run", "--arch", "sm_90a", str(folder / "program.cu"), "--format", "json", "--output", str(output))
    done = subprocess.run([*GPUEMU, *words], capture_output=True, text=True, timeout=280, check=False)
    return done, json.loads(output.read_text())["findings"] if output.exists() else []


def test_tiles_are_loaded_and_stored_by_maps_of_the_program(tmp_path):
    done, found = run(tmp_path, SOURCE)
    assert (done.stdout, done.returncode, found) == ("PASS\n", 0, []), done.stderr


def test_a_map_larger_than_its_allocation(tmp_path):
    done, found = run(tmp_path, SOURCE.replace("{COLUMNS, ROWS}", "{COLUMNS, ROWS + 58}"))
    (larger,) = [one for one in found if one["rule"] == "api/tensor-map"]
    assert larger["range"]["start"]["line"] == ENCODE
    assert "128 x 40 elements ends at byte 20480 of allocation 1" in larger["message"]
    assert "11200 bytes" in larger["message"]
    # The copies of the last boxes do reach past the end.
    assert "memory/out-of-bounds" in {one["rule"] for one in found} and done.returncode == 1


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("strides[] = {COLUMNS * sizeof(float)}", "strides[] = {COLUMNS * sizeof(float) + 4}", "multiples of 16 bytes"),
        ("box[] = {TILE, TILE}", "box[] = {TILE, 257}", "between 1 and 256"),
        ("box[] = {TILE, TILE}", "box[] = {TILE + 1, TILE}", "132 bytes, not a multiple of 16"),
        ("SWIZZLE_NONE", "SWIZZLE_64B", "more than the swizzle's 64"),
        ("i ? y : x", "(i ? y : x) + 1", "address of the tensor is not a multiple of 16"),
    ],
)
def test_a_map_that_the_driver_refuses(tmp_path, before, after, reason):
    assert before in SOURCE
    done, found = run(tmp_path, SOURCE.replace(before, after))
    assert done.stdout == "encode: 1\n"
    (refused,) = found
    assert refused["rule"] == "api/tensor-map" and reason in refused["message"]
    assert refused["range"]["start"]["line"] == ENCODE


def test_a_function_of_the_driver_that_is_not_there(tmp_path):
    done, found = run(tmp_path, SOURCE.replace('"cuTensorMapEncodeTiled"', '"cuTensorMapEncodeIm2col"'))
    assert [one["rule"] for one in found] == ["api/unsupported"] and "cuTensorMapEncodeIm2col" in found[0]["message"]
    assert done.returncode != 0
