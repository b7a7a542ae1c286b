"""Coding agents as clients: each version of a text has a state at once, an answer waits for the verdict."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.raw_client import RawClient
from support.server_kernels import GOOD, SPIN, WRONG, write

AGENT = {"textDocument": {"diagnostic": {}, "publishDiagnostics": {"versionSupport": True}}}
"""Capabilities as the clients of agents declare them: nothing for which a user has to be there."""
PATIENT = {"answerSeconds": 30}


@pytest_asyncio.fixture
async def raw() -> AsyncIterator[RawClient]:
    client = await RawClient.start()
    yield client
    if client.process.returncode is None:
        client.process.kill()
        await client.process.wait()


def published(raw: RawClient, uri: str) -> list[dict[str, Any]]:
    """The publications of a document."""
    every = (item["params"] for item in raw.received if item.get("method") == "textDocument/publishDiagnostics")
    return [params for params in every if params["uri"] == uri]


def states(raw: RawClient, uri: str) -> list[tuple[int, str]]:
    """Version and code of the first diagnostic of each publication."""
    return [(item["version"], item["diagnostics"][0]["code"]) for item in published(raw, uri)]


async def pull(raw: RawClient, uri: str) -> list[dict[str, Any]]:
    answer = await raw.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})
    return list(answer["result"]["items"])


async def test_an_edit_is_checking_at_once_and_then_has_a_verdict(raw: RawClient, tmp_path: Path):
    write(tmp_path, WRONG)
    path, uri = tmp_path / "scale.cu", (tmp_path / "scale.cu").as_uri()
    await raw.begin(tmp_path, AGENT, initializationOptions=PATIENT)
    raw.open(uri, WRONG)
    first, *others = await pull(raw, uri)
    assert first["data"]["verdict"] == "wrong" and first["severity"] == 3
    assert first["message"].startswith("wrong: 1 of 1 kernel ran") and "numeric/tolerance-exceeded" in first["message"]
    assert [item["code"] for item in others] == ["numeric/tolerance-exceeded"]
    path.write_text(GOOD, encoding="utf-8")
    raw.change(uri, 2, {"text": GOOD})  # an agent does not say that it has saved
    (clean,) = await pull(raw, uri)
    assert clean["data"] == {"verdict": "clean", "version": 2} and clean["message"].startswith("clean: 1 of 1 kernel")
    seen = states(raw, uri)
    assert seen.index((1, "checking")) < seen.index((1, "verdict")) < seen.index((2, "checking"))
    assert seen[-1] == (2, "verdict") and published(raw, uri)[-1]["diagnostics"] == [clean]
    raw.change(uri, 3, {"text": GOOD})  # nothing has changed: the verdict holds
    (again,) = await pull(raw, uri)
    assert again["data"] == {"verdict": "clean", "version": 3}
    assert await raw.end() == 0


async def test_an_answer_that_cannot_wait_says_that_the_check_still_runs(raw: RawClient, tmp_path: Path):
    write(tmp_path, SPIN)
    uri = (tmp_path / "scale.cu").as_uri()
    await raw.begin(tmp_path, AGENT, initializationOptions={"answerSeconds": 0.2})
    raw.open(uri, SPIN)
    (first, *_) = await pull(raw, uri)
    assert first["code"] == "checking" and first["data"]["verdict"] is None
    assert (await raw.ask("workspace/executeCommand", {"command": "gpuemu.cancel"}))["result"]
    (first, *_) = await pull(raw, uri)
    assert first["message"] == "not-checked: its check was cancelled."
    assert await raw.end() == 0


async def test_what_was_not_checked_has_its_reason(raw: RawClient, tmp_path: Path):
    write(tmp_path, GOOD)
    uri = (tmp_path / "scale.cu").as_uri()
    await raw.begin(tmp_path, AGENT, initializationOptions=PATIENT)
    raw.open(uri, GOOD)
    assert (await pull(raw, uri))[0]["data"]["verdict"] == "clean"
    raw.change(uri, 2, {"text": WRONG})
    (unsaved,) = await pull(raw, uri)
    assert unsaved["message"] == "not-checked: this text was compiled, but it runs only once it is saved."
    raw.change(uri, 3, {"text": GOOD})
    assert (await pull(raw, uri))[0]["data"]["verdict"] == "clean"
    (tmp_path / "scale.cu").write_text(WRONG, encoding="utf-8")  # behind the client's back
    raw.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 2}]})
    (stale,) = await pull(raw, uri)
    assert stale["message"] == "not-checked: the file on disk has another text than the one that the client has sent."
    raw.change(uri, 4, {"text": "__global__ void broken(float* x) { x[0] = ; }"})
    broken, *errors = await pull(raw, uri)
    assert broken["data"]["verdict"] == "not-checked" and [item["code"] for item in errors] == ["compile/error"]
    header = (tmp_path / "helpers.cuh").as_uri()
    raw.open(header, "__device__ float twice(float x) { return 2 * x; }")
    assert (await pull(raw, header))[0]["message"] == "not-checked: it has no kernel whose launch is known."
    assert await pull(raw, (tmp_path / "notes.txt").as_uri()) == []
    assert await raw.end() == 0


@pytest.mark.parametrize(
    ("options", "shown"),
    [({}, False), ({"agent": True}, True)],
)
async def test_an_editor_is_not_shown_the_state(raw: RawClient, tmp_path: Path, options: dict[str, Any], shown: bool):
    write(tmp_path, GOOD)
    uri = (tmp_path / "scale.cu").as_uri()
    editor = {"textDocument": {"codeAction": {}, "diagnostic": {}}}
    await raw.begin(tmp_path, editor, initializationOptions=options)
    raw.open(uri, GOOD)
    await raw.ask("gpuemu/waitForIdle")
    assert bool(published(raw, uri)[-1]["diagnostics"]) is shown
    assert await raw.end() == 0
