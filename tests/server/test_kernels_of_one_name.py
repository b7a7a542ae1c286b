"""Kernels of one name in one file: what is asked for one of them is not done for another."""

from __future__ import annotations

from pathlib import Path

import pytest
import tomli
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from support.lsp_editor import Editor
from support.python_strings import ONE_NAME

NAMESPACES = """\
namespace clean {
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
}
namespace wrong {
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = sqrtf(x[i]);
}
}
"""
FILES = {
    # File: text, names of the kernels in their order, the line of the second, an instruction that it alone has.
    "model.py": (ONE_NAME, ["scale:ONE", "scale:TWO", "scale:three"], 9),
    "model.cu": (NAMESPACES, ["clean::scale", "wrong::scale"], 7),
}
SECOND = "sqrt.rn.f32"


@pytest.fixture(params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def opened(editor: Editor, name: str) -> str:
    (editor.root / name).write_text(FILES[name][0], encoding="utf-8")
    await editor.start()
    editor.open(name)
    await editor.idle()
    return editor.uri(name)


async def lenses(editor: Editor, uri: str, line: int) -> dict[str, types.Command]:
    """Return the commands above a line by their first word."""
    params = types.CodeLensParams(types.TextDocumentIdentifier(uri))
    found = await editor.client.text_document_code_lens_async(params)
    return {lens.command.title.split()[0]: lens.command for lens in found if lens.range.start.line == line}


async def test_they_have_names_of_their_own_in_the_list_of_tests(editor: Editor, name: str):
    await opened(editor, name)
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    assert [test["label"] for test in tests if test["kind"] == "kernel"] == FILES[name][1]


async def test_the_ptx_is_that_of_the_kernel_below_the_lens(editor: Editor, name: str):
    uri = await opened(editor, name)
    first, second = FILES[name][1][:2]
    command = (await lenses(editor, uri, FILES[name][2]))["Show"]
    written = await editor.command(command.command, *command.arguments)
    assert SECOND in Path(written["path"]).read_text(encoding="utf-8")
    content = await editor.ask("workspace/textDocumentContent", types.TextDocumentContentParams(written["uri"]))
    assert SECOND in content.text
    for kernel, expected in ((first, False), (second, True)):
        where = {"textDocument": {"uri": uri}, "kernel": kernel, "form": "ptx"}
        artifact = await editor.ask("gpuemu/artifact", where)
        assert (SECOND in artifact["text"]) is expected and artifact["title"].startswith(f"{kernel} PTX")
    with pytest.raises(JsonRpcException, match=f"its kernels: {first}, {second}"):
        await editor.ask("gpuemu/artifact", {**where, "kernel": "other"})


async def test_check_and_fuzz_run_the_kernel_below_the_lens(editor: Editor, name: str):
    uri = await opened(editor, name)
    await editor.ask("gpuemu/discoverTests", {})  # states of kernels are sent from now on
    commands = await lenses(editor, uri, FILES[name][2])
    for title in ("gpuemu:", "Fuzz"):
        editor.notes.clear()
        answer = await editor.command(commands[title].command, *commands[title].arguments)
        await editor.idle()
        states = [one for one in editor.received("gpuemu/testState") if "/" not in one["id"].partition("#")[2]]
        assert answer == {"queued": 1} and [one["state"] for one in states] == ["started", "failed"], states


async def test_the_actions_on_a_finding_are_about_its_kernel(editor: Editor, name: str):
    uri = await opened(editor, name)
    (wrong,) = editor.found(name)
    actions = await editor.actions(name, wrong)
    for title in ("Check again", "Fuzz deeper"):
        assert list(actions[title].command.arguments) == [uri, FILES[name][1][1]]


async def test_each_is_registered_under_a_name_of_its_own(editor: Editor, name: str):
    uri = await opened(editor, name)
    for line in (FILES[name][2], 3 if name.endswith(".py") else 1):
        command = (await lenses(editor, uri, line))["Register"]
        await editor.command(command.command, *command.arguments)
        editor.save(name, FILES[name][0])
        await editor.idle()
    entries = tomli.loads((editor.root / "gpuemu.toml").read_text(encoding="utf-8"))["kernels"]
    assert [entry["name"] for entry in entries] == ["scale", "scale_2"]
    if name.endswith(".py"):
        assert [entry["source"] for entry in entries] == ["model.py:TWO", "model.py:ONE"]
    else:
        assert [entry["entry"] for entry in entries] == ["wrong::scale", "clean::scale"]
    assert not editor.codes("gpuemu.toml")
