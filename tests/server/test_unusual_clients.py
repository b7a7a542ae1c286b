"""Clients with few capabilities or unusual message orders: every request is answered, no wrong file looks clean."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.lsp_editor import PATIENCE
from support.raw_client import RawClient
from support.server_kernels import GOOD, REFERENCE, SPIN, TOML, WRONG, write

INVALID_REQUEST, NOT_FOUND, INVALID_PARAMS, NOT_INITIALIZED, CANCELLED = -32600, -32601, -32602, -32002, -32800
START = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}


@pytest_asyncio.fixture
async def raw() -> AsyncIterator[RawClient]:
    client = await RawClient.start()
    yield client
    if client.process.returncode is None:
        client.process.kill()
        await client.process.wait()


async def test_every_request_is_answered_at_any_time_with_any_content(raw: RawClient):
    early = await raw.ask("textDocument/hover", {"textDocument": {"uri": "file:///x.cu"}, "position": START["start"]})
    assert early["error"]["code"] == NOT_INITIALIZED
    raw.notify("textDocument/didOpen", {"nonsense": 1})
    for junk in (b"{not json", b"[]", b"null", b'{"jsonrpc":"2.0"}'):
        raw.send(junk)
    assert (await raw.ask("initialize", {"capabilities": 3}))["error"]["code"] == INVALID_PARAMS
    await raw.begin()
    assert (await raw.ask("initialize", {"capabilities": {}}))["error"]["code"] == INVALID_REQUEST
    for method, params, code in (
        ("textDocument/hover", {"position": 5}, INVALID_PARAMS),
        ("textDocument/hover", None, INVALID_PARAMS),
        ("gpuemu/runTests", {"runId": "r", "include": [5]}, INVALID_PARAMS),
        ("gpuemu/failures", [1], INVALID_PARAMS),
        ("gpuemu/artifact", {"textDocument": 5}, INVALID_PARAMS),
        ("workspace/executeCommand", {"command": "gpuemu.check"}, INVALID_PARAMS),
        ("workspace/executeCommand", {"command": "gpuemu.nothing"}, INVALID_PARAMS),
        ("unknown/method", {}, NOT_FOUND),
        ("$/unknown", None, NOT_FOUND),
    ):
        assert (await raw.ask(method, params)).get("error", {}).get("code") == code, method
    raw.notify("unknown/notification")
    raw.notify("$/cancelRequest", {"id": 4711})
    raw.notify("workspace/didChangeConfiguration", {"settings": None})
    assert (await raw.ask("gpuemu/discoverTests"))["result"] == {"tests": []}
    assert (await raw.ask("shutdown"))["result"] is None
    assert (await raw.ask("gpuemu/discoverTests"))["error"]["code"] == INVALID_REQUEST
    raw.notify("exit")
    assert await raw.ended() == 0
    assert not [item for item in raw.received if item.get("method") == "window/showMessage"]


async def test_a_client_without_capabilities_gets_no_requests_and_all_diagnostics(raw: RawClient, tmp_path: Path):
    write(tmp_path, WRONG)
    uri = (tmp_path / "scale.cu").as_uri()
    await raw.begin(None)
    raw.open(uri, WRONG)
    assert await raw.codes(uri) == {"numeric/tolerance-exceeded"}
    shown = next(item["params"] for item in reversed(raw.received) if "diagnostics" in item.get("params", {}))
    where = {"textDocument": {"uri": uri}, "range": START, "context": {"diagnostics": shown["diagnostics"]}}
    actions = (await raw.ask("textDocument/codeAction", where))["result"]
    assert actions and all(isinstance(item["command"], str) for item in actions)  # commands, not literals
    assert not [item for item in raw.received if "id" in item and "method" in item]
    raw.open(uri, GOOD, 2)  # opened twice
    assert await raw.codes(uri) == set()
    raw.change(uri, 3, {"text": WRONG})
    raw.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert await raw.codes(uri) == {"numeric/tolerance-exceeded"}
    assert await raw.end() == 0


async def test_a_client_that_answers_no_request_of_the_server(raw: RawClient, tmp_path: Path):
    write(tmp_path, WRONG)
    (tmp_path / "gpuemu.toml").write_text(TOML.replace("reference =", "referense ="), encoding="utf-8")
    uri, config = (tmp_path / "scale.cu").as_uri(), (tmp_path / "gpuemu.toml").as_uri()
    raw.silent = True
    dynamic = {"dynamicRegistration": True}
    able = {
        "workspace": {
            "configuration": True,
            "didChangeConfiguration": dynamic,
            "didChangeWatchedFiles": dynamic,
            "codeLens": {"refreshSupport": True},
            "inlayHint": {"refreshSupport": True},
        },
        "window": {"workDoneProgress": True, "showDocument": {"support": True}},
    }
    await raw.begin(tmp_path, able)
    assert await raw.codes(config) == {"config/unknown-key"}  # a file that is not even open
    (tmp_path / "gpuemu.toml").write_text(TOML, encoding="utf-8")
    changed = {"changes": [{"uri": config, "type": 2}]}
    raw.notify("workspace/didChangeWatchedFiles", changed)
    raw.open(uri, SPIN)
    async with asyncio.timeout(PATIENCE):
        while not any(item.get("method") == "window/workDoneProgress/create" for item in raw.received):
            await asyncio.sleep(0.05)
    raw.change(uri, 2, {"text": WRONG})
    raw.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    assert await raw.codes(uri) == {"numeric/tolerance-exceeded"} and await raw.codes(config) == set()
    asked = {item["method"] for item in raw.received if "id" in item and "method" in item}
    assert {"workspace/configuration", "client/registerCapability", "workspace/codeLens/refresh"} <= asked
    assert sum(item.get("method") == "workspace/codeLens/refresh" for item in raw.received) == 1
    assert "$/progress" not in {item.get("method") for item in raw.received}  # the token was not created
    assert await raw.end() == 0


async def test_a_document_that_is_closed_while_it_is_checked(raw: RawClient, tmp_path: Path):
    write(tmp_path, SPIN)
    uri = (tmp_path / "scale.cu").as_uri()
    await raw.begin(tmp_path)
    raw.open(uri, SPIN)
    assert (await raw.ask("textDocument/codeLens", {"textDocument": {"uri": uri}}))["result"]
    raw.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    raw.notify("textDocument/didClose", {"textDocument": {"uri": uri}})  # closed twice
    raw.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
    (tmp_path / "scale.cu").write_text(WRONG, encoding="utf-8")
    raw.open(uri, WRONG)
    assert await raw.codes(uri) == {"numeric/tolerance-exceeded"}
    assert await raw.end() == 0


async def test_pull_diagnostics_must_be_requested(raw: RawClient, tmp_path: Path):
    write(tmp_path, WRONG)
    uri = (tmp_path / "scale.cu").as_uri()
    able = {
        "textDocument": {"codeAction": {}, "diagnostic": {}},
        "workspace": {"diagnostics": {"refreshSupport": True}},
    }
    started = await raw.ask("initialize", {"processId": None, "rootPath": str(tmp_path), "capabilities": able})
    assert "diagnosticProvider" not in started["result"]["capabilities"]
    raw.notify("initialized", {})
    for method, params in (("textDocument/diagnostic", {"textDocument": {"uri": uri}}), ("workspace/diagnostic", {})):
        assert (await raw.ask(method, {**params, "previousResultIds": []}))["error"]["code"] == NOT_FOUND
    raw.open(uri, WRONG)
    assert await raw.codes(uri) == {"numeric/tolerance-exceeded"}
    folders = (await raw.ask("workspace/executeCommand", {"command": "gpuemu.debugInfo"}))["result"]
    assert f"- `{tmp_path}`" in folders
    assert await raw.end() == 0


async def test_edits_beyond_the_text_and_invalid_texts(raw: RawClient, tmp_path: Path):
    uri = (tmp_path / "scale.cu").as_uri()
    await raw.begin(tmp_path)
    raw.open(uri, GOOD)
    for number in range(50):
        there = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
        raw.change(uri, number + 2, {"range": START, "text": "/"}, {"range": there, "text": ""})
    assert await raw.codes(uri) == set()
    beyond = {"start": {"line": 99, "character": 0}, "end": {"line": 999, "character": 50}}
    raw.change(uri, 60, {"range": beyond, "text": "__device__ nowhere q;"})
    assert "compile/error" in await raw.codes(uri)
    for number, text in enumerate(("", "\0\ud800", "\ufeff" + GOOD.replace("\n", "\r\n"), '"' + GOOD)):
        raw.change(uri, 70 + number, {"text": text})
    assert "compile/error" in await raw.codes(uri)
    raw.change(uri, 80)
    raw.change((tmp_path / "never_opened.cu").as_uri(), 3, {"text": "x"})
    raw.change(uri, 81, {"text": GOOD})
    assert await raw.codes(uri) == set()
    assert await raw.end() == 0


@pytest.mark.parametrize("registered", [True, False])
async def test_a_kernel_with_an_incomplete_declaration_is_not_clean(raw: RawClient, tmp_path: Path, registered: bool):
    write(tmp_path)
    if not registered:
        (tmp_path / "gpuemu.toml").unlink()
    uri = (tmp_path / "scale.cu").as_uri()
    await raw.begin(tmp_path)
    raw.open(uri, GOOD)
    assert await raw.codes(uri) == set()
    raw.change(uri, 2, {"text": GOOD.replace("int n) {", "int n {")})
    assert await raw.codes(uri) == {"compile/error"}
    raw.change(uri, 3, {"text": GOOD})
    assert await raw.codes(uri) == set()


async def test_a_kernel_excluded_by_if_is_not_an_error(raw: RawClient, tmp_path: Path):
    uri = (tmp_path / "scale.cu").as_uri()
    await raw.begin(tmp_path)
    raw.open(uri, f"#if 0\n{GOOD}#endif\n")
    assert await raw.codes(uri) == set()


async def test_documents_of_other_schemes_are_ignored(raw: RawClient):
    await raw.begin()
    for uri in ("untitled:Untitled-1", "git:/x/scale.cu?ref", "vscode-notebook-cell:/a.ipynb#1"):
        raw.open(uri, GOOD.replace("2.0f", "nowhere"))
        raw.change(uri, 2, {"text": GOOD})
        where = {"textDocument": {"uri": uri}}
        assert (await raw.ask("textDocument/hover", {**where, "position": START["start"]}))["result"] is None
        assert (await raw.ask("textDocument/codeLens", where))["result"] == []
        raw.notify("textDocument/didClose", where)
        assert await raw.codes(uri) == set()


async def test_one_file_by_several_names(raw: RawClient, tmp_path: Path):
    home, link = tmp_path / "a b", tmp_path / "link"
    home.mkdir()
    link.symlink_to(home)
    write(home, WRONG)
    await raw.begin(home)
    names = [
        f"file://localhost{home.as_posix().replace(' ', '%20')}/scale.cu",
        home.as_uri() + "/%73cale.cu",
        (link / "scale.cu").as_uri(),
    ]
    for uri in names:
        raw.open(uri, WRONG)
        assert await raw.codes(uri) == {"numeric/tolerance-exceeded"}
        if uri != names[-1]:
            raw.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    await asyncio.sleep(0.3)  # until the watcher has started
    (home / "ref.py").write_text(REFERENCE.replace("2.0", "2.5"), encoding="utf-8")
    async with asyncio.timeout(PATIENCE):
        while await raw.codes(names[-1]):
            await asyncio.sleep(0.1)


async def test_a_client_that_only_reads_plain_text(raw: RawClient, tmp_path: Path):
    write(tmp_path)
    uri = (tmp_path / "scale.cu").as_uri()
    encodings = {"general": {"positionEncodings": ["utf-8"]}}
    await raw.begin(tmp_path, {**encodings, "textDocument": {"hover": {"contentFormat": ["plaintext"]}}})
    raw.open(uri, GOOD)
    where = {"textDocument": {"uri": uri}, "position": {"line": 0, "character": GOOD.index("scale")}}
    assert (await raw.ask("textDocument/hover", where))["result"]["contents"]["kind"] == "plaintext"


async def test_a_cancelled_request_is_answered_and_its_end_of_input_ends_the_server(raw: RawClient, tmp_path: Path):
    await raw.begin(tmp_path)
    raw.open((tmp_path / "scale.cu").as_uri(), GOOD)
    waiting = raw.request("gpuemu/waitForIdle", {})
    raw.notify("$/cancelRequest", {"id": waiting})
    answer = await raw.answer(waiting)
    assert answer.get("error", {}).get("code") == CANCELLED
    assert raw.process.stdin is not None
    raw.process.stdin.close()
    assert await raw.ended() == 1


async def test_exit_before_initialize(raw: RawClient):
    raw.notify("exit")
    assert await raw.ended() == 1
