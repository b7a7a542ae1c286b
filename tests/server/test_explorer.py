"""Test explorer: discovery, runs of one or all tests, cancellation, and states of checks on save."""

from __future__ import annotations

import re
from typing import Any

from support.lsp_editor import Editor
from support.server_kernels import GOOD, SPIN, TOML, WRONG, write

OTHER = GOOD.replace("scale", "other")
TWO = TOML + "\n" + TOML.replace('"scale"', '"other"').replace("scale.cu", "other.cu")


def _two(editor: Editor, scale: str = GOOD, other: str = GOOD) -> None:
    write(editor.root, scale)
    (editor.root / "gpuemu.toml").write_text(TWO, encoding="utf-8")
    (editor.root / "other.cu").write_text(other.replace("scale", "other"), encoding="utf-8")


def _labels(tests: list[dict[str, Any]], kind: str) -> list[str]:
    return [item["label"] for item in tests if item["kind"] == kind]


def _states(editor: Editor, run: str | None, test: str) -> list[str]:
    return [
        item["state"] for item in editor.received("gpuemu/testState") if item["runId"] == run and item["id"] == test
    ]


async def _ended(editor: Editor, run: str) -> dict[str, Any]:
    await editor.until(lambda: any(item["runId"] == run for item in editor.received("gpuemu/testsEnded")))
    (end,) = [item for item in editor.received("gpuemu/testsEnded") if item["runId"] == run]
    return end


async def test_discovery_finds_kernels_and_types_and_runs_nothing(editor: Editor):
    _two(editor)
    (editor.root / "ref.py").write_text("raise SystemExit('this was run')", encoding="utf-8")
    await editor.start()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    assert _labels(tests, "file") == ["scale.cu", "other.cu"]
    assert _labels(tests, "kernel") == ["scale", "other"]
    assert _labels(tests, "dtype") == ["float32", "float32"]
    ids = {item["id"] for item in tests}
    assert all(item["parent"] in ids or item["kind"] == "file" for item in tests)
    assert not editor.received("gpuemu/testState") and not (editor.root / ".gpuemu").exists()


async def test_a_run_of_all_tests_reports_states_and_ends_once(editor: Editor):
    _two(editor, scale=WRONG)
    await editor.start()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    kernels = {item["label"]: item["id"] for item in tests if item["kind"] == "kernel"}
    answer = await editor.ask("gpuemu/runTests", {"runId": "r1", "include": None, "exclude": [], "deep": False})
    assert set(kernels.values()) <= set(answer["queued"])
    assert (await _ended(editor, "r1"))["cancelled"] is False
    assert _states(editor, "r1", kernels["scale"]) == ["enqueued", "started", "failed"]
    assert _states(editor, "r1", kernels["other"]) == ["enqueued", "started", "passed"]
    (failed,) = [
        item
        for item in editor.received("gpuemu/testState")
        if item["id"] == f"{kernels['scale']}/float32" and item["state"] == "failed"
    ]
    assert failed["uri"] == editor.uri("scale.cu") and failed["range"]["start"]["line"] == 3
    assert failed["expected"] != failed["actual"] and failed["expected"].startswith("y[")
    assert any("numeric/tolerance-exceeded" in item["text"] for item in editor.received("gpuemu/testOutput"))
    await editor.idle()
    changed = editor.received("gpuemu/testsChanged")[-1]
    assert changed["scope"] == [editor.uri("scale.cu")] and _labels(changed["tests"], "case")


async def test_one_kernel_runs_alone(editor: Editor):
    _two(editor)
    await editor.start()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    kernels = {item["label"]: item["id"] for item in tests if item["kind"] == "kernel"}
    await editor.ask("gpuemu/runTests", {"runId": "r1", "include": [kernels["other"]], "exclude": [], "deep": False})
    await _ended(editor, "r1")
    assert _states(editor, "r1", kernels["other"])[-1] == "passed"
    assert not [item for item in editor.received("gpuemu/testState") if item["id"] == kernels["scale"]]


async def test_a_failing_case_is_a_test_item_that_passes_once_fixed(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    case = next(item["id"] for item in tests if item["kind"] == "case")
    editor.save("scale.cu", GOOD)
    await editor.idle()
    assert _states(editor, None, case)[-1] == "passed"
    assert not _labels(editor.received("gpuemu/testsChanged")[-1]["tests"], "case")


async def test_a_case_that_was_not_run_again_has_not_passed(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    case = next(item for item in tests if item["kind"] == "case")
    size = re.search(r"n = (\d+)", case["label"])
    assert size is not None
    editor.save("scale.cu", GOOD.replace("2.0f", f"(n == {size[1]} ? 2.0f : 3.0f)"))
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    assert _states(editor, None, case["id"])[-1] == "skipped"


async def test_aborting_ends_the_run_and_the_check(editor: Editor):
    write(editor.root, SPIN)
    await editor.start()
    await editor.ask("gpuemu/discoverTests", {})
    await editor.ask("gpuemu/runTests", {"runId": "r1", "include": None, "exclude": [], "deep": False})
    await editor.until(lambda: any(item["state"] == "started" for item in editor.received("gpuemu/testState")))
    await editor.ask("gpuemu/abortTests", {"runId": "r1"})
    assert (await _ended(editor, "r1"))["cancelled"] is True
    await editor.idle()
    assert editor.received("gpuemu/testState")[-1]["state"] == "skipped"
    assert len(editor.received("gpuemu/testsEnded")) == 1


async def test_an_edit_makes_the_states_stale_once(editor: Editor):
    write(editor.root)
    await editor.start()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    kernel = next(item["id"] for item in tests if item["kind"] == "kernel")
    editor.open("scale.cu")
    await editor.idle()
    for number in (3, 4):
        editor.replace("scale.cu", GOOD.replace("2.0f", f"{number}.0f"))
        await editor.idle()
    assert _states(editor, None, kernel) == ["started", "passed", "stale"]


async def test_a_client_without_test_explorer_receives_no_states(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    assert editor.found("scale.cu")
    assert not editor.received("gpuemu/testState") + editor.received("gpuemu/testsChanged")


async def test_an_empty_run_ends(editor: Editor):
    await editor.start()
    answer = await editor.ask(
        "gpuemu/runTests", {"runId": "r1", "include": ["file:///nowhere.cu"], "exclude": [], "deep": False}
    )
    assert answer["queued"] == []
    await _ended(editor, "r1")


async def test_the_items_of_an_opened_file_precede_their_states(editor: Editor):
    await editor.start()
    await editor.ask("gpuemu/discoverTests", {})
    (editor.root / "scale.cu").write_text(WRONG, encoding="utf-8")
    editor.open("scale.cu")
    await editor.idle()
    kinds = [name for name, _ in editor.notes if name in ("gpuemu/testsChanged", "gpuemu/testState")]
    assert kinds[0] == "gpuemu/testsChanged" and "gpuemu/testState" in kinds
