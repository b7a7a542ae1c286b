"""Code actions: offered for the server's own diagnostics, resolved lazily, and effective."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from support.debug_client import DebugClient
from support.lsp_editor import Editor
from support.server_kernels import GOOD, STORE_LINE, TOML, WRONG, write

SLIGHTLY = GOOD.replace("2.0f * x[i]", "2.0f * x[i] * 1.001f")


async def _open(editor: Editor, source: str) -> types.Diagnostic:
    write(editor.root, source)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    return editor.found("scale.cu")[0]


def _titled(actions: dict[str, types.CodeAction], beginning: str) -> types.CodeAction:
    (found,) = [action for title, action in actions.items() if title.startswith(beginning)]
    return found


async def test_reproduce_writes_a_script_that_reproduces_the_failure(editor: Editor):
    wrong = await _open(editor, WRONG)
    actions = await editor.actions("scale.cu", wrong)
    todo = _titled(actions, "Reproduce failure (float32, n=").command
    answer = await editor.command(todo.command, *todo.arguments)
    script = Path(answer["path"])
    editor.save("scale.cu", GOOD)  # the script is self-contained
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and f"case {wrong.data['case']}" in ran.stdout, ran
    with pytest.raises(JsonRpcException, match="no stored case 17"):
        await editor.command(todo.command, editor.uri("scale.cu"), "17")


async def test_a_debug_session_is_offered_to_clients_that_start_one(editor: Editor):
    write(editor.root, WRONG)
    await editor.start(debugger=True)
    editor.open("scale.cu")
    await editor.idle()
    wrong = editor.found("scale.cu")[0]
    todo = _titled(await editor.actions("scale.cu", wrong), "Debug the failing thread (float32, n=").command
    launch = await editor.command(todo.command, *todo.arguments)
    given = {key: launch[key] for key in ("type", "request", "root", "case", "kernel", "dtype")}
    assert given == {
        "type": "gpuemu", "request": "launch", "root": str(editor.root), "case": wrong.data["case"], "kernel": "scale",
        "dtype": "float32",
    }  # fmt: skip
    where = types.TextDocumentIdentifier(editor.uri("scale.cu"))
    lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(where))
    assert "Debug the failing thread" in [lens.command.title for lens in lenses]
    sockets = [(await editor.ask("gpuemu/debugAdapter", {}))["socket"] for _ in range(2)]
    # Both at once: no session waits for another one, or for checks.
    await asyncio.gather(*(asyncio.to_thread(_debug, path, launch) for path in sockets))


def _debug(path: str, launch: dict[str, str]) -> None:
    """Debug a case of ``scale`` by an adapter of the server, from the finding to the line before it."""
    with DebugClient(path) as client:
        stop = client.start(Path(launch["root"]), launch["case"], kernel=launch["kernel"], dtype=launch["dtype"])
        assert stop["reason"] == "exception" and "expected" in stop["text"]
        assert client.frames(stop["threadId"])[0]["line"] == STORE_LINE + 1
        assert client.request("gpuemu/lanes")["lanes"][0]["runs"]
        client.request("stepBack", threadId=stop["threadId"])
        assert client.event("stopped")["reason"] in ("step", "entry")
        client.request("disconnect")


async def test_no_debug_session_is_offered_in_an_untrusted_folder(editor: Editor):
    write(editor.root, WRONG)
    await editor.start(debugger=True, trusted=False)
    editor.open("scale.cu")
    await editor.idle()
    with pytest.raises(JsonRpcException, match="not trusted"):
        await editor.command("gpuemu.debug", editor.uri("scale.cu"), "17")
    with pytest.raises(JsonRpcException, match="not trusted"):
        await editor.ask("gpuemu/debugAdapter", {})


async def test_minimize_replaces_the_finding_by_the_smaller_case(editor: Editor):
    wrong = await _open(editor, WRONG)
    assert wrong.data["dims"]["n"] > 1
    todo = _titled(await editor.actions("scale.cu", wrong), "Minimize (float32, n=").command
    assert (await editor.command(todo.command, *todo.arguments))["queued"] == 1
    await editor.idle()
    (now,) = editor.found("scale.cu")
    assert now.data["dims"] == {"n": 1} and now.data["case"] != wrong.data["case"]
    assert (now.code, now.range) == (wrong.code, wrong.range)
    assert editor.received("gpuemu/failuresChanged")
    listed = (await editor.ask("gpuemu/failures", {}))["failures"]
    assert [item["id"] for item in listed if item["minimized"]] == [now.data["case"]]


async def test_failing_cases_of_one_line_and_seed_are_distinguished(editor: Editor):
    write(editor.root)
    both = WRONG.replace('extern "C"', "template <typename T>").replace("float*", "T*")
    (editor.root / "scale.cu").write_text(both, encoding="utf-8")
    entry = 'entry = "scale<{T}>"\ndtypes = ["float32", "float64"]\n\n[kernels.dims]'
    (editor.root / "gpuemu.toml").write_text(TOML.replace("\n[kernels.dims]", entry, 1), encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    found = editor.found("scale.cu")
    assert [item.data["dtype"] for item in found] == ["float32", "float64"]
    assert len({(item.range.start.line, item.data["case"]) for item in found}) == 1
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(editor.uri("scale.cu")), found[0].range, types.CodeActionContext(found)
    )
    offered = await editor.client.text_document_code_action_async(params)
    titles = [action.title for action in offered]
    assert len(set(titles)) == len(titles)
    assert [len(action.diagnostics) for action in offered if action.title == "Check again"] == [2]
    written = set()
    for dtype in ("float32", "float64"):
        todo = _titled({action.title: action for action in offered}, f"Reproduce failure ({dtype}, n=").command
        written.add((await editor.command(todo.command, *todo.arguments))["path"])
        case = {"uri": editor.uri("scale.cu"), "id": found[0].data["case"], "kernel": "scale", "dtype": dtype}
        assert (await editor.ask("gpuemu/failure", case))["dtype"] == dtype
    assert len(written) == 2
    todo = _titled({action.title: action for action in offered}, "Minimize (float64").command
    await editor.command(todo.command, *todo.arguments)
    await editor.idle()
    sizes = {item.data["dtype"]: item.data["dims"]["n"] for item in editor.found("scale.cu")}
    assert sizes == {"float32": found[0].data["dims"]["n"], "float64": 1}


async def test_check_again_and_fuzz_deeper_run(editor: Editor):
    wrong = await _open(editor, WRONG)
    actions = await editor.actions("scale.cu", wrong)
    for title in ("Check again", "Fuzz deeper"):
        before = len(editor.statuses)
        todo = actions[title].command
        assert await editor.command(todo.command, *todo.arguments) == {"queued": 1}
        await editor.idle()
        assert any(not status.quiescent for status in editor.statuses[before:])
        assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}


async def test_fuzzing_runs_the_configured_number_of_cases(editor: Editor):
    write(editor.root)
    await editor.start(settings={"deepCases": 40})
    editor.open("scale.cu")
    await editor.idle()
    await editor.command("gpuemu.fuzz", editor.uri("scale.cu"))
    await editor.idle()
    where = types.TextDocumentIdentifier(editor.uri("scale.cu"))
    at = types.HoverParams(where, types.Position(0, GOOD.index("scale") + 1))
    hover = await editor.client.text_document_hover_async(at)
    assert "40 of 40 cases" in hover.contents.value
    assert "the cases reached 4 of 4 lines and 2 of 2 branch outcomes" in hover.contents.value


async def test_fuzzing_finds_a_race_that_optimisation_removes(editor: Editor):
    # Every thread reads back its own value: the optimiser removes the shared variable and thereby the race.
    shared = GOOD.replace("        y[i] = 2.0f * x[i];", "        word[0] = x[i];\n        y[i] = 2.0f * word[0];")
    (editor.root / "scale.cu").write_text(
        shared.replace("    int i", "    __shared__ float word[1];\n    int i"), "utf-8"
    )
    await editor.start(settings={"deepCases": 4})
    editor.open("scale.cu")
    await editor.idle()
    assert editor.found("scale.cu") == []
    await editor.command("gpuemu.fuzz", editor.uri("scale.cu"))
    await editor.idle()
    assert editor.codes("scale.cu") == {"memory/shared-race"}


async def test_the_measured_tolerance_makes_the_kernel_pass(editor: Editor):
    wrong = await _open(editor, SLIGHTLY)
    actions = await editor.actions("scale.cu", wrong)
    (title,) = [title for title in actions if title.startswith("Set the float32 tolerance of scale")]
    assert actions[title].edit is None and not actions[title].is_preferred
    edit = (await editor.resolve(actions[title])).edit
    editor.apply(edit)
    text = (editor.root / "gpuemu.toml").read_text(encoding="utf-8")
    assert text.startswith(TOML) and "[kernels.tolerances]\nfloat32 = 0.00" in text
    await editor.command("gpuemu.check", editor.uri("scale.cu"))
    await editor.idle()
    assert editor.found("scale.cu") == []


async def test_no_tolerance_is_offered_for_an_error_beyond_rounding(editor: Editor):
    wrong = await _open(editor, WRONG)
    assert not [title for title in await editor.actions("scale.cu", wrong) if "tolerance of" in title]


async def test_a_limit_is_raised_to_the_measured_value(editor: Editor):
    write(editor.root)
    config = TOML + "\n[kernels.artifact_checks]\nmax_registers = 2 # tight\n"
    (editor.root / "gpuemu.toml").write_text(config, encoding="utf-8")
    await editor.start()
    editor.open("gpuemu.toml")
    editor.open("scale.cu")
    await editor.idle()
    (wrong,) = editor.found("scale.cu")
    assert wrong.code == "artifact/registers"
    actions = await editor.actions("scale.cu", wrong)
    (title,) = [title for title in actions if title.startswith("Raise max_registers")]
    edit = (await editor.resolve(actions[title])).edit
    (change,) = edit.document_changes
    assert change.text_document.version == 1
    editor.apply(edit)
    assert f"max_registers = {wrong.data['value']} # tight" in (editor.root / "gpuemu.toml").read_text()
    await editor.idle()
    assert editor.found("scale.cu") == []


async def test_ignoring_a_finding_applies_to_its_line_and_rule_only(editor: Editor):
    wrong = await _open(editor, WRONG)
    actions = await editor.actions("scale.cu", wrong)
    edit = (await editor.resolve(actions["Ignore numeric/tolerance-exceeded here"])).edit
    editor.apply(edit)
    lines = (editor.root / "scale.cu").read_text().split("\n")
    assert lines[STORE_LINE].endswith("2.5f * x[i];  // gpuemu: ignore[numeric/tolerance-exceeded]")
    await editor.idle()
    assert not editor.last("scale.cu").diagnostics
    editor.save("scale.cu", WRONG.replace("];\n", "]; // gpuemu: ignore[numeric/nan]\n"))
    await editor.idle()
    (old,) = editor.found("scale.cu")
    edit = (await editor.resolve((await editor.actions("scale.cu", old))[f"Ignore {old.code} here"])).edit
    editor.apply(edit)
    assert "// gpuemu: ignore[numeric/nan, numeric/tolerance-exceeded]" in (editor.root / "scale.cu").read_text()


async def test_registration_creates_an_entry_and_a_runnable_reference(editor: Editor):
    (editor.root / "scale.cu").write_text(GOOD, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    hints = [item for item in editor.last("scale.cu").diagnostics if item.code == "config/launch-inferred"]
    actions = await editor.actions("scale.cu", hints[0])
    (title,) = [title for title in actions if title.startswith("Register scale in gpuemu.toml")]
    editor.apply((await editor.resolve(actions[title])).edit)
    reference = editor.root / "ref_scale.py"
    assert "np.zeros((n,))" in reference.read_text(encoding="utf-8")
    await editor.command("gpuemu.check", editor.uri("scale.cu"))
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}  # zeros: it ran and was compared
    assert editor.found("gpuemu.toml") == []
    reference.write_text(reference.read_text().replace("np.zeros((n,))", 'inputs["x"] * 2.0'), encoding="utf-8")
    await editor.command("gpuemu.check", editor.uri("scale.cu"))
    await editor.idle()
    assert not editor.last("scale.cu").diagnostics


async def test_registration_at_the_sizes_at_which_a_kernel_is_clean(editor: Editor):
    body = (
        "    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);\n    if (i < n) *(float4*)&y[i] = *(float4*)&x[i];\n"
    )
    text = f"__global__ void copy(const float* x, float* y, int n) {{\n{body}}}\n"
    (editor.root / "scale.cu").write_text(text, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (shown, *_) = editor.found("scale.cu")
    assert shown.severity == types.DiagnosticSeverity.Information
    actions = await editor.actions("scale.cu", shown)
    editor.apply((await editor.resolve(_titled(actions, "Register copy in gpuemu.toml for n that are"))).edit)
    assert "n = { min = 1, max = 1024, multiple_of = 4 }" in (editor.root / "gpuemu.toml").read_text(encoding="utf-8")
    await editor.command("gpuemu.check", editor.uri("scale.cu"))
    await editor.idle()
    assert "memory/out-of-bounds" not in editor.codes("scale.cu")


async def _lenses(editor: Editor) -> dict[str, types.Command]:
    params = types.CodeLensParams(types.TextDocumentIdentifier(editor.uri("scale.cu")))
    found = await editor.client.text_document_code_lens_async(params)
    return {lens.command.title: lens.command for lens in found or []}


async def test_the_lens_of_an_unregistered_kernel_registers_it_on_disk_and_checks_it(editor: Editor):
    (editor.root / "scale.cu").write_text(GOOD, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    todo = (await _lenses(editor))["Register kernel"]
    answer = await editor.command(todo.command, *todo.arguments)
    assert answer == {"config": editor.uri("gpuemu.toml"), "reference": editor.uri("ref_scale.py")}
    assert 'name = "scale"' in (editor.root / "gpuemu.toml").read_text(encoding="utf-8")
    assert "np.zeros((n,))" in (editor.root / "ref_scale.py").read_text(encoding="utf-8")
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}  # it is compared, with zeros
    assert "Register kernel" not in await _lenses(editor)
    with pytest.raises(JsonRpcException, match="registered already"):
        await editor.command(todo.command, *todo.arguments)


async def test_registration_keeps_the_text_of_an_existing_configuration(editor: Editor):
    write(editor.root)
    other = GOOD.replace("scale", "other")
    (editor.root / "other.cu").write_text(other, encoding="utf-8")
    await editor.start()
    editor.open("other.cu")
    await editor.idle()
    await editor.command("gpuemu.register", editor.uri("other.cu"), "other")
    assert (editor.root / "gpuemu.toml").read_text(encoding="utf-8").startswith(TOML + "\n[[kernels]]")


async def test_diagnostics_of_other_servers_have_no_actions(editor: Editor):
    wrong = await _open(editor, WRONG)
    wrong.source = "clangd"
    assert await editor.actions("scale.cu", wrong) == {}


async def _fix_all(editor: Editor, name: str) -> list[types.CodeAction]:
    where = types.Range(types.Position(0, 0), types.Position(0, 0))
    context = types.CodeActionContext([], only=["source.fixAll"])
    document = types.TextDocumentIdentifier(editor.uri(name))
    params = types.CodeActionParams(document, where, context)
    return list(await editor.client.text_document_code_action_async(params) or [])


async def test_fix_all_corrects_typos_and_removes_unused_suppressions_only(editor: Editor):
    suppressed = WRONG.replace("x[i];\n", "x[i];  // gpuemu: ignore[numeric/nan, numeric/tolerance-exceeded]\n")
    write(editor.root, suppressed)
    config = TOML.replace("[kernels.launch]", "[kernels.lanuch]").replace("reference =", "referense =")
    (editor.root / "gpuemu.toml").write_text(config, encoding="utf-8")
    await editor.start()
    editor.open("gpuemu.toml")
    await editor.until(lambda: len(editor.found("gpuemu.toml")) >= 2)
    (action,) = await _fix_all(editor, "gpuemu.toml")
    assert action.kind == "source.fixAll.gpuemu" and len(action.edit.document_changes) == 1
    editor.apply(action.edit)
    assert (editor.root / "gpuemu.toml").read_text() == TOML
    await editor.until(lambda: not editor.found("gpuemu.toml"))
    assert await _fix_all(editor, "gpuemu.toml") == []
    editor.open("scale.cu")
    await editor.idle()
    (hint,) = [item for item in editor.last("scale.cu").diagnostics if item.code == "config/unused-suppression"]
    assert "Remove this suppression" in await editor.actions("scale.cu", hint)
    (action,) = await _fix_all(editor, "scale.cu")
    editor.apply(action.edit)
    assert "// gpuemu: ignore[numeric/tolerance-exceeded]\n" in (editor.root / "scale.cu").read_text()
    await editor.idle()
    assert await _fix_all(editor, "scale.cu") == []


async def test_fix_all_is_listed_on_request_only(editor: Editor):
    wrong = await _open(editor, WRONG.replace("x[i];\n", "x[i];  // gpuemu: ignore[numeric/nan]\n"))
    assert not [title for title in await editor.actions("scale.cu", wrong) if title.startswith("Fix everything")]
