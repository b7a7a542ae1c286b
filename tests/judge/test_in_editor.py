"""Answers judged in the editor: lens, verdict on the class, the item of the test explorer, cancellation."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest_asyncio
from judge.test_hacks import ANSWER, TASK
from lsprotocol import types
from pytest_lsp import make_test_lsp_client
from support.lsp_editor import COMMAND, PATIENCE, Editor, attach

WRONG = ANSWER.replace("tl.exp(-x)", "tl.exp(x)")
NEVER = ANSWER + "\nimport os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(600)\n"
JUDGE_SECONDS = 240


@pytest_asyncio.fixture
async def editor(tmp_path):
    for name, text in {"solution.py": WRONG, "reference.py": TASK}.items():
        (tmp_path / name).write_text(text)
    client = make_test_lsp_client()
    editor = Editor(client, tmp_path)
    attach(editor)
    await client.start_io(*COMMAND)
    yield editor
    await asyncio.wait_for(client.shutdown_session(), PATIENCE)
    await client.stop()
    assert editor.violations == []


async def lens(editor: Editor) -> tuple[int, types.Command] | None:
    document = types.TextDocumentIdentifier(editor.uri("solution.py"))
    found = await editor.client.text_document_code_lens_async(types.CodeLensParams(document))
    commands = [(one.range.start.line, one.command) for one in found or ()]
    return next(((line, one) for line, one in commands if one is not None and one.command == "gpuemu.judge"), None)


async def ended(editor: Editor, run: str) -> None:
    async with asyncio.timeout(JUDGE_SECONDS):
        while not any(note["runId"] == run for note in editor.received("gpuemu/testsEnded")):
            await asyncio.sleep(0.1)


def states(editor: Editor, identity: str) -> list[tuple[str, str | None]]:
    sent = [note for note in editor.received("gpuemu/testState") if note["id"] == identity]
    return [(note["state"], note.get("message")) for note in sent]


async def test_an_answer_is_judged_on_request_with_its_verdict_on_its_class(editor: Editor):
    line = WRONG.split("class ModelNew")[0].count("\n")
    await editor.start()
    editor.open("solution.py", WRONG)
    await editor.idle()
    found = await lens(editor)
    assert found is not None
    assert (found[0], found[1].title) == (line, "Judge")
    assert not [one for one in editor.found("solution.py") if one.code == "judge/verdict"]
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    (answer,) = [test for test in tests if test["kind"] == "answer"]
    assert (answer["label"], answer["range"]["start"]["line"]) == ("ModelNew", line)
    await editor.ask("gpuemu/runTests", {"runId": "1", "include": [answer["id"]], "exclude": [], "deep": False})
    await ended(editor, "1")
    assert [state for state, _ in states(editor, answer["id"])] == ["started", "failed"]
    (verdict,) = [one for one in editor.found("solution.py") if one.code == "judge/verdict"]
    assert verdict.message.startswith("differs: output[")
    assert (verdict.severity, verdict.range.start.line) == (types.DiagnosticSeverity.Error, line)
    found = await lens(editor)
    assert found is not None
    assert found[1].title == "gpuemu: differs | Judge again"
    editor.save("solution.py", ANSWER)
    found = await lens(editor)
    assert found is not None
    assert found[1].title == "Judge"


async def test_a_judgement_is_cancelled_and_leaves_no_process(editor: Editor):
    (editor.root / "solution.py").write_text(NEVER)
    await editor.start()
    editor.open("solution.py", NEVER)
    await editor.idle()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    (answer,) = [test["id"] for test in tests if test["kind"] == "answer"]
    await editor.ask("gpuemu/runTests", {"runId": "1", "include": [answer], "exclude": [], "deep": False})
    pid = editor.root / "pid"
    async with asyncio.timeout(JUDGE_SECONDS):
        while not (pid.is_file() and pid.read_text()):
            await asyncio.sleep(0.1)
    await editor.ask("gpuemu/abortTests", {"runId": "1"})
    await ended(editor, "1")
    assert states(editor, answer)[-1] == ("skipped", "The run was cancelled.")
    await editor.idle()
    async with asyncio.timeout(PATIENCE):
        while Path(f"/proc/{pid.read_text()}").exists():
            await asyncio.sleep(0.1)


async def test_nothing_of_an_untrusted_folder_is_judged(editor: Editor):
    await editor.start(trusted=False)
    editor.open("solution.py", WRONG)
    await editor.idle()
    assert await lens(editor) is None
    assert await editor.command("gpuemu.judge", editor.uri("solution.py")) == {"queued": 0}
