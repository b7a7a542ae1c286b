"""Runs of programs from the editor: lens, findings, the list of launches, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from lsprotocol import types
from support.lsp_editor import Editor
from support.nvcc import required_nvcc
from support.recordings import MadeLaunch, record

PROGRAM = """#include <cuda_runtime.h>

__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = 2 * x[i];
}

int main() {
    float *x, *y;
    cudaMalloc(&x, 400);
    cudaMalloc(&y, 400);
    cudaMemset(x, 0, 400);
    scale<<<1, 128>>>(x, y, 100);
    return cudaDeviceSynchronize() != cudaSuccess;
}
"""
ENDLESS = PROGRAM.replace("    return cuda", "    for (;;) {}\n    return cuda")


@pytest.fixture
def nvcc() -> None:
    required_nvcc()


async def run_ends(holds: Callable[[], bool]) -> None:
    """Wait for a run: nvcc takes seconds, and on a busy machine a minute."""
    async with asyncio.timeout(300):
        while not holds():
            await asyncio.sleep(0.1)


async def lenses(editor: Editor, name: str) -> dict[int, types.Command]:
    document = types.TextDocumentIdentifier(editor.uri(name))
    found = await editor.client.text_document_code_lens_async(types.CodeLensParams(document))
    commands = [(one.range.start.line, one.command) for one in found or ()]
    return {line: command for line, command in commands if command is not None and command.command == "gpuemu.run"}


async def test_a_program_is_run_and_its_findings_are_diagnostics(nvcc: None, editor: Editor):
    (editor.root / "scale.cu").write_text(PROGRAM)
    await editor.start()
    editor.open("scale.cu", PROGRAM)
    await editor.idle()
    ((line, command),) = (await lenses(editor, "scale.cu")).items()
    assert (line, command.title) == (7, "Run under gpuemu")
    assert await editor.command("gpuemu.run", *command.arguments) == {"queued": 1}
    await run_ends(lambda: bool(editor.received("gpuemu/launchesChanged")))
    await editor.idle()
    of_run = [one for one in editor.found("scale.cu") if one.data["case"] is None and one.severity == 1]
    assert {(one.code, one.range.start.line) for one in of_run} == {("memory/out-of-bounds", 4)}
    assert {one.location.range.start.line for one in of_run[0].related_information} == {9, 12}
    (recording,) = (await editor.ask("gpuemu/launches", {}))["recordings"]
    (launch,) = recording["launches"]
    assert (launch["kernel"], launch["range"]["start"]["line"], launch["grid"]) == ("scale", 12, [1, 1, 1])
    assert (launch["count"], launch["checked"], launch["repeated"], launch["findings"]) == (1, 1, 0, 2)
    # The check that follows uses the launch.
    assert any("as recorded in scale, scale.cu:13" in one.message for one in editor.found("scale.cu"))


async def test_a_run_is_cancelled_and_leaves_no_process(nvcc: None, editor: Editor):
    (editor.root / "scale.cu").write_text(ENDLESS)
    await editor.start()
    editor.open("scale.cu", ENDLESS)
    await editor.idle()
    await editor.command("gpuemu.run", editor.uri("scale.cu"))
    recordings = editor.root / ".gpuemu" / "recordings"
    # The recording begins when the program has been built.
    await run_ends(lambda: recordings.is_dir() and any(recordings.iterdir()))
    assert (await editor.command("gpuemu.cancel"))["cancelled"] >= 1
    await editor.idle()
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if _is_of(path, editor.root)]


def _is_of(path: Path, root: Path) -> bool:
    try:
        return str(root).encode() in path.read_bytes()
    except OSError:
        return False


async def test_launches_of_a_recording_are_listed_without_a_run(editor: Editor):
    source = editor.root / "scale.cu"
    source.write_text(PROGRAM.partition("int main")[0].partition("\n\n")[2])
    x = np.zeros(100, np.float32)
    record(source, "scale", [MadeLaunch((x, x, 100), 1, 128)])
    await editor.start()
    (recording,) = (await editor.ask("gpuemu/launches", {"textDocument": {"uri": editor.uri("scale.cu")}}))[
        "recordings"
    ]
    assert recording["program"] == "scale"
    (launch,) = recording["launches"]
    assert launch["uri"] == editor.uri("scale.cu")
    (name,) = launch["recorded"]
    configuration = await editor.command("gpuemu.debugLaunch", launch["source"], "scale", name)
    chosen = {"root": str(editor.root), "kernel": "scale", "launch": name}
    assert configuration == {"type": "gpuemu", "request": "launch", "name": "scale: recorded launch", **chosen}
    (editor.root / ".gpuemu" / "recordings" / "scale.gpurec").write_bytes(b"damaged")
    assert (await editor.ask("gpuemu/launches", {}))["recordings"] == []


async def test_failures_of_a_recorded_launch_are_listed_at_their_kernel_and_minimised(editor: Editor):
    source = editor.root / "scale.cu"
    text = PROGRAM.partition("int main")[0].partition("\n\n")[2]
    source.write_text(text)
    x = np.zeros(100, np.float32)
    record(source, "scale", [MadeLaunch((x, x, 100), 1, 128, line=2)])
    await editor.start()
    editor.open("scale.cu", text)
    await editor.idle()
    for asked in ({}, {"textDocument": {"uri": editor.uri("scale.cu")}}):
        (failure,) = (await editor.ask("gpuemu/failures", asked))["failures"]
        assert (failure["uri"], failure["kernel"], failure["dims"]) == (editor.uri("scale.cu"), "scale", {"n": 100})
        assert failure["range"]["start"]["line"] == 2
    details = await editor.ask("gpuemu/failure", {"uri": editor.uri("scale.cu"), "id": failure["id"]})
    assert (details["uri"], details["kernel"]) == (editor.uri("scale.cu"), "scale")
    assert await editor.command("gpuemu.minimize", editor.uri("scale.cu"), failure["id"], "scale") == {"queued": 1}
    await editor.idle()
    (smaller,) = (await editor.ask("gpuemu/failures", {}))["failures"]
    assert (smaller["minimized"], smaller["dims"]["n"] < 100) == (True, True)


async def test_programs_of_an_untrusted_folder_are_not_run(editor: Editor):
    (editor.root / "scale.cu").write_text(PROGRAM)
    await editor.start(trusted=False)
    editor.open("scale.cu", PROGRAM)
    assert await lenses(editor, "scale.cu") == {}
    assert await editor.command("gpuemu.run", editor.uri("scale.cu")) == {"queued": 0}
