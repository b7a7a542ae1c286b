"""Known failure modes of language servers, one test each.

Numbers 1 and 2 are in test_process_regressions, and 1 (a killed client), 2 (a shutdown under load) and 16 (columns) also
in test_server_processes and test_server_checks. Number 21 needs a GPU.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from pathlib import Path

import pytest
from lsprotocol import types
from pytest_lsp import make_test_lsp_client
from support.lsp_editor import COMMAND, Editor, attach
from support.processes import alive, busy, children, descendants, resident_mb, workers
from support.server_kernels import GOOD, OUT_OF_BOUNDS, PASSED, REFERENCE, SPIN, STORE_LINE, TOML, WRONG, write

from gpuemu_lsp.cli.main import main
from gpuemu_lsp.server.client.params import plain
from gpuemu_lsp.server.workspace.projects import Projects


async def _open(editor: Editor, source: str = GOOD, **options) -> None:
    write(editor.root, source)
    await editor.start(**options)
    editor.open("scale.cu")
    await editor.idle()


async def _spinning(editor: Editor) -> None:
    write(editor.root, SPIN)
    await editor.start()
    editor.open("scale.cu")
    await editor.until(lambda: "begin" in editor.progress)


def _pids(editor: Editor) -> set[int]:
    return descendants(editor.client._server.pid)


async def test_03_two_hundred_saves_leave_one_job_and_check_the_last_text(editor: Editor):
    await _open(editor)
    server = editor.client._server.pid
    before = resident_mb(server)
    for number in range(200):  # none of them terminates
        editor.save("scale.cu", SPIN.replace("2.0f", f"2.{number:03}1f"))
        await asyncio.sleep(0.01)
        async with asyncio.timeout(5):  # killing takes a moment; a worker that is not killed runs for ten seconds
            while len(busy(server)) > 1:
                await asyncio.sleep(0.01)
    editor.save("scale.cu", WRONG)
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    await editor.until(lambda: not busy(server))
    assert len(_pids(editor)) <= 3 + (os.cpu_count() or 2)  # server, fork server, workers
    assert resident_mb(server) < 1.2 * before


async def test_04_an_endless_kernel_edited_to_a_trivial_one_is_green(editor: Editor):
    await _spinning(editor)
    editor.save("scale.cu", GOOD)
    await asyncio.wait_for(editor.idle(), 15)
    assert editor.found("scale.cu") == []
    assert "passed" in await editor.hover("scale.cu", 0, GOOD.index("scale"))


async def test_05_an_edit_above_moves_the_diagnostic_and_marks_it_stale(editor: Editor):
    await _open(editor, WRONG)
    top = types.Range(types.Position(0, 0), types.Position(0, 0))
    editor.change("scale.cu", types.TextDocumentContentChangePartial(top, "// a\n// b\n// c\n"))
    await editor.idle()
    (wrong,) = editor.found("scale.cu")
    assert wrong.range.start.line == STORE_LINE + 3 and wrong.data["stale"] is True


async def test_06_a_result_of_an_older_version_is_never_published(editor: Editor):
    write(editor.root, WRONG)
    slow = REFERENCE.replace("    return", "    import time\n    time.sleep(0.1)\n    return")
    (editor.root / "ref.py").write_text(slow, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.until(lambda: bool(workers(editor.client._server.pid)) and not editor.statuses[-1].quiescent)
    await asyncio.sleep(0.3)
    editor.save("scale.cu", GOOD)
    await editor.idle()
    await asyncio.sleep(1)  # enough for the first check to end, had it not been killed
    late = [item for params in editor.published if params.version == 2 for item in params.diagnostics]
    assert "numeric/tolerance-exceeded" not in {item.code for item in late} and editor.found("scale.cu") == []
    assert "passed" in await editor.hover("scale.cu", 0, GOOD.index("scale"))


async def test_07_a_syntax_error_marks_the_result_as_outdated_at_once(editor: Editor):
    await _open(editor)
    editor.replace("scale.cu", GOOD.replace("int i =", "int i ="[:-1] + "= = "))
    assert "before your edits" in await editor.hover("scale.cu", 0, GOOD.index("scale"))
    await editor.idle()
    assert editor.codes("scale.cu") == {"compile/error"}


async def test_08_a_save_is_one_check_and_files_of_the_store_are_none(editor: Editor):
    await _open(editor)
    await asyncio.sleep(0.7)  # late watcher events of the initial files
    await editor.idle()
    before = sum(not status.quiescent for status in editor.statuses)
    editor.save("scale.cu", WRONG)
    await editor.idle()
    assert (editor.root / ".gpuemu").exists()
    await asyncio.sleep(0.7)
    await editor.idle()
    assert sum(not status.quiescent for status in editor.statuses) == before + 1


async def test_09_a_kernel_that_does_not_terminate_does_not_delay_others(editor: Editor):
    write(editor.root)
    two = GOOD + SPIN.replace("scale", "spin")
    (editor.root / "scale.cu").write_text(two, encoding="utf-8")
    (editor.root / "gpuemu.toml").write_text(TOML + TOML.replace('"scale"', '"spin"'), encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.until(lambda: bool(editor.published))
    text = ""
    deadline = time.monotonic() + 30
    while "passed" not in text and time.monotonic() < deadline:
        text = await editor.hover("scale.cu", 0, GOOD.index("scale"))
        await asyncio.sleep(0.05)
    assert PASSED.search(text) and editor.statuses[-1].quiescent is False  # the other one still runs
    await editor.command("gpuemu.cancel")
    await editor.idle()
    assert PASSED.search(await editor.hover("scale.cu", 0, GOOD.index("scale")))


async def test_10_a_missing_gpu_is_a_status_and_no_message(editor: Editor):
    await _open(editor, WRONG, settings={"executor": "gpu"})
    await editor.until(lambda: hasattr(editor.statuses[-1].versions, "GPU"))
    status = plain(editor.statuses[-1])
    there = not status["versions"]["GPU"].startswith("none")
    assert (status["health"], status["executor"]) == (("ok", "gpu") if there else ("warning", "emulator"))
    assert there or status["message"].startswith("There is no GPU")
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    assert not editor.client.messages


@pytest.mark.parametrize("end", ["cancel", "crash", "bar", "newer"])
async def test_11_progress_always_ends(editor: Editor, end: str):
    await _spinning(editor)
    if end == "cancel":
        await editor.command("gpuemu.cancel")
    elif end == "crash":
        while editor.progress.count("end") < editor.progress.count("begin"):  # it is retried once
            for worker in workers(editor.client._server.pid):
                os.kill(worker, signal.SIGKILL)
            await asyncio.sleep(0.3)
    elif end == "bar":
        (token,) = editor.bars
        cancel = types.WorkDoneProgressCancelParams(token)
        editor.client.window_work_done_progress_cancel(cancel)
    else:
        editor.save("scale.cu", GOOD)
    await editor.idle()
    await editor.until(lambda: editor.progress.count("begin") == editor.progress.count("end"))
    assert "0 progress bars" in await editor.command("gpuemu.debugInfo")


async def test_12_cancel_is_answered_before_the_workers_are_dead(editor: Editor):
    await _spinning(editor)
    server = editor.client._server.pid
    await editor.until(lambda: bool(busy(server)))
    spinning = busy(server)
    (fork_server,) = children(server)
    os.kill(fork_server, signal.SIGSTOP)  # workers are neither reaped nor replaced now
    try:
        assert (await editor.command("gpuemu.cancel"))["cancelled"] == 1
        assert await editor.hover("scale.cu", 0, GOOD.index("scale"))
    finally:
        os.kill(fork_server, signal.SIGCONT)
    await editor.idle()
    assert editor.statuses[-1].quiescent is True
    editor.save("scale.cu", WRONG)
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    await editor.until(lambda: not alive(spinning))


async def test_13_a_configuration_made_invalid_fixed_deleted_created_and_moved(editor: Editor):
    await _open(editor, WRONG)
    editor.open("gpuemu.toml")
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    editor.save("gpuemu.toml", "[[kernels")
    await editor.idle()
    assert editor.codes("gpuemu.toml") == {"config/syntax"}
    editor.save("scale.cu", WRONG + "\n")
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}  # the last valid one is used
    editor.save("gpuemu.toml", TOML + "[kernels.tolerances]\nfloat32 = 10.0\n")
    await editor.idle()
    assert editor.found("gpuemu.toml") == [] and editor.codes("scale.cu") == set()
    editor.save("gpuemu.toml", TOML)
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    editor.close("gpuemu.toml")
    (editor.root / "gpuemu.toml").rename(editor.root / "moved.toml")
    editor.save("scale.cu", WRONG + "\n\n")
    await editor.idle()
    assert editor.codes("scale.cu") == set()  # no reference
    (editor.root / "moved.toml").rename(editor.root / "gpuemu.toml")
    editor.save("scale.cu", WRONG)
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}


def test_13_a_truncated_configuration_is_not_the_last_valid_one(tmp_path: Path):
    write(tmp_path, WRONG)
    config, projects = tmp_path / "gpuemu.toml", Projects()
    good = projects.read_config(config.as_posix())
    assert good is not None and good.kernels
    config.write_text("", encoding="utf-8")
    emptied = projects.read_config(config.as_posix())
    assert emptied is not None and not emptied.kernels  # possibly intended
    config.write_text("[[kernels", encoding="utf-8")
    assert projects.read_config(config.as_posix()) == good


async def test_14_two_roots_nested_roots_and_no_root(editor: Editor):
    for name in ("a", "a/inner", "b"):
        (editor.root / name).mkdir()
        write(editor.root / name, WRONG)
    (editor.root / "b" / "gpuemu.toml").write_text(TOML.replace("reference", "referense"), encoding="utf-8")
    await editor.start(folders=["a", "b"])
    for name in ("a/scale.cu", "a/inner/scale.cu", "b/scale.cu"):
        editor.open(name)
    await editor.idle()
    assert len(editor.found("a/scale.cu")) == len(editor.found("a/inner/scale.cu")) == 1
    assert editor.codes("b/gpuemu.toml") == {"config/unknown-key"}
    event = types.WorkspaceFoldersChangeEvent(added=[], removed=[types.WorkspaceFolder(editor.uri("b"), "b")])
    editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
    await editor.until(lambda: not editor.codes("b/gpuemu.toml"))
    event = types.WorkspaceFoldersChangeEvent(added=[types.WorkspaceFolder(editor.uri("b"), "b")], removed=[])
    editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
    await editor.until(lambda: editor.codes("b/gpuemu.toml") == {"config/unknown-key"})


async def test_14_a_file_without_any_root(editor: Editor):
    (editor.root / "scale.cu").write_text(OUT_OF_BOUNDS, encoding="utf-8")
    await editor.start(folders=[])
    editor.open("scale.cu")
    await editor.idle()
    assert "memory/out-of-bounds" in editor.codes("scale.cu")


@pytest.mark.parametrize("folder", ["a b", "f(x)", "n#1", "c%3A", "日本"])
async def test_15_diagnostics_use_the_clients_spelling_of_the_uri(editor: Editor, folder: str):
    home = editor.root / folder
    home.mkdir()
    write(home, WRONG)
    await editor.start()
    spelled = home.as_uri().replace("%28", "(").replace("%29", ")") + "/%73cale.cu"  # not the canonical spelling
    item = types.TextDocumentItem(spelled, "cuda-cpp", 1, WRONG)
    editor.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    await editor.idle()
    mine = [params for params in editor.published if params.diagnostics]
    assert {params.uri for params in mine} == {spelled}


async def test_16_a_tab_and_carriage_returns_do_not_move_columns(editor: Editor):
    source = GOOD.replace("    int i", "\t/* 漢字😀 */ q = 0;\n    int i").replace("\n", "\r\n")
    (editor.root / "k.cu").write_bytes(source.encode())
    await editor.start(encodings=["utf-16"])
    editor.open("k.cu", source)
    await editor.idle()
    (wrong,) = editor.found("k.cu")
    assert wrong.range.start == types.Position(1, len("\t/* 漢字 */ ") + 2)


async def test_17_a_rewrite_outside_the_editor_is_noticed(editor: Editor):
    await _open(editor)
    assert editor.found("scale.cu") == []
    await asyncio.sleep(0.5)
    (editor.root / "ref.py").write_text(REFERENCE.replace("2.0", "3.0"), encoding="utf-8")
    await editor.until(lambda: editor.codes("scale.cu") == {"numeric/tolerance-exceeded"})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("import sys, os\nprint('x' * 100000)\nos.write(1, b'Content-Length: 3\\r\\n\\r\\n{}')\n" + REFERENCE, None),
        (REFERENCE.replace("return 2.0", "raise SystemExit(3)\n    return 2.0"), "reference/error"),
        (REFERENCE.replace("return 2.0", "import os\n    os._exit(3)\n    return 2.0"), "reference/error"),
        (REFERENCE.replace("return 2.0", "import time\n    time.sleep(600)\n    return 2.0"), "reference/error"),
    ],
)
async def test_18_a_reference_cannot_corrupt_the_protocol(editor: Editor, body: str, code: str | None):
    write(editor.root)
    (editor.root / "ref.py").write_text(body, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    found = editor.codes("ref.py") | editor.codes("scale.cu") | editor.codes("gpuemu.toml")
    assert found == ({code} if code else set())


async def test_19_a_fault_is_attributed_to_its_kernel_only(editor: Editor):
    write(editor.root)
    wild = GOOD.replace("y[i] = 2.0f * x[i]", "y[(long long)i << 40] = 1.0f").replace("scale", "wild")
    (editor.root / "scale.cu").write_text(wild + GOOD, encoding="utf-8")
    (editor.root / "gpuemu.toml").write_text(TOML.replace('"scale"', '"wild"') + TOML, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    kernels = {item.data["kernel"] for item in editor.found("scale.cu")}
    assert kernels == {"wild"}


async def test_20_settings_cannot_make_a_workspace_trusted(editor: Editor):
    write(editor.root, WRONG)
    marker = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n"
    (editor.root / "ref.py").write_text(marker + REFERENCE, encoding="utf-8")
    await editor.start(trusted=False)
    settings = types.DidChangeConfigurationParams({"gpuemu": {"trusted": True, "cases": 4}})
    editor.client.workspace_did_change_configuration(settings)
    editor.open("scale.cu")
    await editor.idle()
    await editor.command("gpuemu.fuzz", editor.uri("scale.cu"))
    await editor.idle()
    assert not (editor.root / "ran").exists() and not (editor.root / ".gpuemu").exists()


async def test_22_check_and_editor_report_the_same(editor: Editor, capsys: pytest.CaptureFixture[str]):
    write(editor.root, WRONG.replace("i < n", "i < n - 1"))
    (editor.root / "wild.cu").write_text(OUT_OF_BOUNDS.replace("scale", "wild"), encoding="utf-8")
    (editor.root / "broken.cu").write_text(GOOD.replace("x[i]", "nowhere[i]"), encoding="utf-8")
    (editor.root / "half.cu").write_text(
        GOOD.replace("(i < n)", "(i < n / 2)").replace("scale", "half"), encoding="utf-8"
    )
    files = ("scale.cu", "wild.cu", "broken.cu", "half.cu")
    await editor.start(encodings=["utf-8"])
    for name in files:
        editor.open(name)
    await editor.idle()
    shown = {
        (item.code, item.range.start.line, item.range.start.character, item.data["fingerprint"])
        for name in files
        for item in editor.last(name).diagnostics
    }
    assert main(["--check", *(str(editor.root / name) for name in files), "--format", "json"]) == 1
    reported = json.loads(capsys.readouterr().out)["findings"]
    assert shown == {
        (item["rule"], item["range"]["start"]["line"], item["range"]["start"]["character"], item["fingerprint"])
        for item in reported
    }
    assert {"numeric/tolerance-exceeded", "memory/out-of-bounds", "compile/error"} <= {code for code, *_ in shown}


async def test_a_second_client_is_a_second_server(editor: Editor, tmp_path_factory: pytest.TempPathFactory):
    """Servers of two editors do not affect each other."""
    other = Editor(make_test_lsp_client(), tmp_path_factory.mktemp("other"))
    attach(other)
    await other.client.start_io(*COMMAND)
    write(other.root, WRONG)
    await other.start()
    other.open("scale.cu")
    await _open(editor)
    await other.idle()
    assert editor.found("scale.cu") == [] and other.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    await other.client.shutdown_session()
    await other.client.stop()
