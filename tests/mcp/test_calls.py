"""Calls, arguments and results without a server: what ends a call, what is cut, what is refused."""

from __future__ import annotations

import math
import threading
import time

import pytest

from gpuemu_lsp.mcp.call import ToolCall, ToolError
from gpuemu_lsp.mcp.long_results import cut
from gpuemu_lsp.mcp.schemas import array, integer, mapping, number, problems, record, text
from gpuemu_lsp.mcp.session import AgentSession
from gpuemu_lsp.mcp.workspace import Workspace


def new_call() -> ToolCall:
    return ToolCall(AgentSession(), {}, lambda *_: None)


def test_files_that_take_too_long_to_read_end_with_the_budget():
    call, blocked = new_call(), threading.Event()
    with call.budget(0.2), pytest.raises(ToolError, match=r"budget of 0.2 s was used up while files were read"):
        call.read(blocked.wait)
    blocked.set()
    assert new_call().read(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        new_call().read(lambda: 1 // 0)


def test_work_that_begins_after_the_end_of_a_call_is_ended():
    class Work:
        cancelled = 0

        def cancel(self) -> None:
            self.cancelled += 1

    call, early, late = new_call(), Work(), Work()
    with call.ending_with_call(early):
        call.end("enough")
    with call.ending_with_call(late):
        pass
    assert (early.cancelled, late.cancelled, call.reason) == (1, 1, "enough")
    call.end("later")
    assert call.reason == "enough"


def test_every_list_is_cut_and_nothing_is_lost():
    kept: list[list] = []
    result = {"findings": [{"steps": list(range(25))} for _ in range(12)], "value": math.nan, "dims": {"n": -math.inf}}
    shown = cut(result, lambda items: kept.append(items) or f"rest-{len(kept)}")
    assert len(shown["findings"]) == 10 and len(shown["findings"][3]["steps"]) == 20
    assert (shown["value"], shown["dims"]) == ("nan", {"n": "-inf"})
    assert [row["of"] for row in shown["rest"]][:2] == ["findings", "findings[0].steps"]
    assert sum(row["items"] for row in shown["rest"]) == sum(map(len, kept)) == 2 + 10 * 5


ARGUMENTS = record(
    {
        "n": integer(minimum=1, maximum=9),
        "share": number(minimum=0),
        "form": text(choices=("a", "b")),
        "files": mapping(text()),
        "list": array(integer()),
    },
    ("n",),
)


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"n": 1, "share": 0.5, "form": "a", "files": {"x": "y"}, "list": [1]}, []),
        ([], ["arguments must be an object, not []"]),
        ({}, ["arguments lacks 'n'"]),
        ({"n": 0}, ["n must be at least 1, not 0"]),
        ({"n": 10}, ["n must be at most 9, not 10"]),
        ({"n": True}, ["n must be an integer, not True"]),
        ({"n": 1.5}, ["n must be an integer, not 1.5"]),
        ({"n": 1, "share": -1}, ["share must be at least 0, not -1"]),
        ({"n": 1, "form": "c"}, ["form must be one of a, b, not 'c'"]),
        ({"n": 1, "files": {"x": 3}}, ["files.x must be a string, not 3"]),
        ({"n": 1, "list": [1, "2"]}, ["list[1] must be an integer, not '2'"]),
        ({"n": 1, "m": 2}, ["arguments has no 'm'; there are: n, share, form, files, list"]),
    ],
)
def test_arguments_are_checked(given, wrong):
    assert list(problems(ARGUMENTS, given)) == wrong


def test_texts_stay_in_their_folder_and_go_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    workspace = Workspace()
    folder = workspace.with_files({"a.cu": "x", "sub/b.h": "y"})
    assert (folder / "sub" / "b.h").read_text() == "y" and workspace.with_files({"a.cu": "x", "sub/b.h": "y"}) == folder
    for name in ("../a.cu", "/etc/a.cu", ".", "a/../../b.cu"):
        with pytest.raises(ValueError, match="is not the name of a file"):
            workspace.with_files({name: "x"})
    first = workspace.with_files({"a.cu": "0"})
    for number_ in range(1, 40):
        workspace.with_files({"a.cu": str(number_)})
    assert not first.exists()
    # A second server leaves the folder of one that runs.
    other = Workspace()
    assert workspace.folder.exists()
    other.close()
    workspace.close()
    assert not list(tmp_path.iterdir())


def test_a_budget_that_was_not_used_ends_nothing():
    call = new_call()
    with call.budget(0.05):
        pass
    time.sleep(0.1)
    assert call.reason == ""
