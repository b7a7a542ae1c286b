"""Run one failing case of a CUDA kernel again with ``python FILE.py [OTHER.ptx]``.

It needs NumPy, FILE.npz in the same folder, and either CuPy and an NVIDIA GPU, or the package gpuemu-lsp. The emulator
also detects errors that a GPU does not report: races, uninitialised reads, accesses just outside a buffer.
Exit codes: 0 it passes; 1 it fails; 2 it could not be run.
"""

import ctypes
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

_SHOWN = 8


def main() -> int:
    """Run the case and print the errors."""
    with np.load(Path(__file__).with_suffix(".npz"), allow_pickle=False) as archive:
        arrays = dict(archive)
    about = json.loads(arrays["about"].tobytes())
    ptx = Path(sys.argv[1]).read_text() if len(sys.argv) > 1 else arrays["ptx"].tobytes().decode()
    print(f"{about['kernel']} ({about['dtype']}), case {about['case']}: {about['rule']}")
    print(f"  {about['message']}")
    print(f"  grid {about['grid']}, block {about['block']}, dims {about['dims']}, seed {about['seed']}")
    ran = _on_gpu(about, arrays, ptx)
    if ran is None:
        ran = _emulated(about, arrays, ptx)
    if ran is None:
        print("  Not run: neither CuPy with a GPU nor the package gpuemu-lsp is available.")
        return 2
    where, after, errors = ran
    for line in errors:
        print(f"  {line}")
    wrong = sum(_compare(item, arrays, after) for item in about["arguments"]) if after else 0
    print(f"  {'fails' if wrong or errors else 'passes'} on {where}")
    return 1 if wrong or errors else 0


def _on_gpu(about: dict[str, Any], arrays: dict[str, Any], ptx: str) -> tuple[str, dict[str, Any], list[str]] | None:
    """Launch through CuPy; return None if there is no GPU."""
    try:
        import cupy  # type: ignore[import-untyped, unused-ignore]

        if cupy.cuda.runtime.getDeviceCount() < 1:
            return None
    except Exception:  # no CuPy or no driver
        return None
    driver, held, memory = cupy.cuda.driver, [], {}
    for item in about["arguments"]:
        data = arrays[f"argument:{item['name']}"]
        if item["alias"] is None:
            memory[item["name"]] = cupy.zeros(data.size + 512, cupy.uint8)
            memory[item["name"]][item["offset"] : item["offset"] + data.size] = cupy.asarray(data)
        else:
            memory[item["name"]] = memory[item["alias"]]
    starts = {item["name"]: memory[item["name"]].data.ptr + item["offset"] for item in about["arguments"]}
    starts = {item["name"]: starts[item["name"]] + item["pointer_offset"] for item in about["arguments"]}
    for parameter in about["parameters"]:
        raw = bytearray(arrays[f"parameter:{parameter['name']}"].tobytes())
        for pointer in parameter["pointers"]:
            place = pointer["offset"]
            raw[place : place + 8] = starts[pointer["buffer"]].to_bytes(8, "little")
        held.append(ctypes.create_string_buffer(bytes(raw), len(raw)))
    pointers = (ctypes.c_void_p * max(1, len(held)))(*(ctypes.addressof(one) for one in held))
    try:
        function = driver.moduleGetFunction(driver.moduleLoadData(ptx.encode() + b"\0"), about["entry"])
        if about["shared_bytes"] > 48 * 1024:
            limit = driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            driver.funcSetAttribute(function, limit, about["shared_bytes"])
        shape = (*about["grid"], *about["block"])
        driver.launchKernel(function, *shape, about["shared_bytes"], 0, ctypes.addressof(pointers), 0)
        cupy.cuda.runtime.deviceSynchronize()
        after = {}
        for item in about["arguments"]:
            start, size = item["offset"], arrays[f"argument:{item['name']}"].size
            after[item["name"]] = cupy.asnumpy(memory[item["name"]])[start : start + size]
    except RuntimeError as error:  # the base class of CuPy's errors
        return "the GPU", {}, [str(error)]
    return "the GPU", after, []


def _emulated(about: dict[str, Any], arrays: dict[str, Any], ptx: str) -> tuple[str, dict[str, Any], list[str]] | None:
    """Run in the emulator of gpuemu-lsp; return None if it is not installed."""
    try:
        from gpuemu_lsp.engine.compile.model import Artifact
        from gpuemu_lsp.engine.emulator import Emulator
        from gpuemu_lsp.engine.execution import Buffer, Request, StructArgument
    except ImportError:
        return None
    buffers = {}
    for item in about["arguments"]:
        data = arrays[f"argument:{item['name']}"]
        extra = {"element_size": item["element_size"], "offset": item["offset"], "alias_of": item["alias"]}
        extra["pointer_offset"] = item["pointer_offset"]
        buffers[item["name"]] = Buffer(item["name"], data, item["initialized"], **extra)
    arguments = []
    for parameter in about["parameters"]:
        pointers = tuple((pointer["offset"], buffers[pointer["buffer"]]) for pointer in parameter["pointers"])
        data = arrays[f"parameter:{parameter['name']}"].tobytes()
        arguments.append(StructArgument(parameter["name"], data, pointers))
    artifact = Artifact("", about["arch"], ptx, b"", {}, {}, "")
    grid, block = tuple(about["grid"]), tuple(about["block"])
    request = Request(artifact, about["entry"], grid, block, about["shared_bytes"], tuple(arguments))
    outcome = Emulator().run(request)
    errors = [f"{event.rule}: {event.message}" for event in outcome.events]
    if outcome.status != "completed" and not errors:
        errors = [f"the launch ended as '{outcome.status}'"]
    return "the emulator", dict(outcome.buffers) if outcome.status == "completed" else {}, errors


def _compare(item: dict[str, Any], arrays: dict[str, Any], after: dict[str, Any]) -> int:
    """Print the first wrong elements of one argument; return their number."""
    name = item["name"]
    if item["kind"] == "in":
        before = arrays[f"argument:{name}"]
        changed = 0 if item["shared"] else int(np.count_nonzero(before != after[name]))
        if changed:
            print(f"  {changed} bytes of the input {name} were changed")
        return changed
    if f"expected:{name}" not in arrays:
        return 0
    expected, allowed = arrays[f"expected:{name}"], arrays[f"allowed:{name}"]
    actual = _decoded(item, arrays, after[name], expected.shape)
    with np.errstate(invalid="ignore"):
        fine = (actual == expected) | (np.isnan(actual) & np.isnan(expected)) | np.isposinf(allowed)
        fine |= np.abs(actual - expected) <= allowed
    wrong = np.argwhere(~fine)
    for index in map(tuple, wrong[:_SHOWN]):
        place = ", ".join(map(str, index))
        print(f"  {name}[{place}] = {actual[index]:.9g}, expected {expected[index]:.9g} +- {allowed[index]:.2g}")
    if len(wrong) > _SHOWN:
        print(f"  ... {len(wrong)} of {expected.size} elements of {name} are wrong")
    return len(wrong)


def _decoded(item: dict[str, Any], arrays: dict[str, Any], data: Any, shape: tuple[int, ...]) -> Any:
    """Return an output's elements as float64. For types that NumPy lacks, the archive has a table of all values."""
    table = arrays.get(f"table:{item['dtype']}")
    stored = np.dtype(f"u{item['element_size']}" if table is not None else item["dtype"])
    steps = tuple(step * stored.itemsize for step in item["strides"])
    raw = np.ndarray(shape, stored, np.ascontiguousarray(data).data, strides=steps)
    return np.asarray(raw if table is None else table[raw], dtype=np.float64)


if __name__ == "__main__":
    sys.exit(main())
