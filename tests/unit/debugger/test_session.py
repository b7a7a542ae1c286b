"""Sessions about planted bugs: the stop at the finding, steps in both directions, breakpoints, values, commands."""

from __future__ import annotations

import gc
import weakref

import pytest
from support.corpus import copy_kernels

from gpuemu_lsp.engine.check import launch_recorder
from gpuemu_lsp.engine.debugger.objects import NO_VALUE, NOT_RECORDED
from gpuemu_lsp.engine.debugger.protocol import DebugRequestError
from gpuemu_lsp.engine.debugger.syntax import CExpressionError
from gpuemu_lsp.engine.emulator.launch.recorder import RecordingLimits


def test_a_session_begins_at_the_finding_and_steps_back_to_its_cause(client):
    session = client("odd_reduce_buggy")
    assert session.stop["reason"] == "exception" and "expected" in session.stop["text"]
    assert session.line == 13
    lines = [session.move("stepBack") for _ in range(5)]
    assert lines == [7, 11, 10, 9, 8]
    assert session.values()["size"] == "3"
    assert session.move("next") == 9 and session.values()["half"] == "1"


@pytest.mark.parametrize("kernel", ["odd_reduce_buggy", "warp_tail_buggy", "off_by_one_buggy"])
def test_steps_back_and_forward_again_come_to_the_same_moments(client, kernel):
    session = client(kernel)
    moments = [session.session.position]
    for _ in range(20):
        session.move("stepBack")
        if session.stop["reason"] == "entry":
            break
        moments.append(session.session.position)
    assert len(moments) > 2
    for expected in moments[-2::-1]:
        session.move("next")
        assert session.session.position == expected


def test_a_block_that_is_recorded_in_parts_is_stepped_through_as_one(client, project_client, tmp_path, monkeypatch):
    whole = client("odd_reduce_buggy")
    size = whole.session.block.recording.window.whole // 5
    monkeypatch.setattr(launch_recorder, "DEFAULT_LIMITS", RecordingLimits(size))
    copy_kernels(["odd_reduce_buggy"], tmp_path)
    parts = project_client(tmp_path)
    assert parts.session.block.begins_late and parts.stop == whole.stop
    compared = 0
    while whole.stop["reason"] != "entry":
        assert parts.session.position == whole.session.position
        for name, value in whole.values().items():
            shown = parts.values()[name]
            assert shown in (value, NOT_RECORDED)
            compared += shown == value != NO_VALUE
        assert parts.move("stepBack") == whole.move("stepBack")
    assert compared > 50 and not parts.session.block.begins_late and parts.session.block.ends_early
    assert [one for one in parts.outputs if one.startswith("recording parts of the block before")]
    for _ in range(40):
        assert parts.move("next", granularity="instruction") == whole.move("next", granularity="instruction")
        assert parts.session.position == whole.session.position
    for session in (parts, whole):
        session.move("continue")
        assert session.stop["reason"] == "exception"
        session.move("stepBack", granularity="instruction")
        session.breakpoints({"line": 9, "condition": "half == 24 && threadIdx.x == 2"})
        session.move("reverseContinue")
    assert parts.stop == whole.stop and parts.session.position == whole.session.position
    assert parts.evaluate("why", "repl").startswith(parts.session.subject.text)
    # The recording of the finding was made again for the answer; the session is where it was.
    assert parts.session.position == whole.session.position
    parts.move("reverseContinue")
    assert whole.move("reverseContinue") == parts.line and parts.session.position == whole.session.position


def test_a_condition_is_looked_for_in_all_threads_forwards_and_backwards(client):
    session = client("odd_reduce_buggy")
    (verified,) = session.breakpoints({"line": 9, "condition": "half == 3 && threadIdx.x == 2"})
    assert verified["verified"]
    (refused,) = session.breakpoints({"line": 9, "condition": "half == 3 && thread == 2"})
    assert not refused["verified"] and "'thread'" in refused["message"]
    (elsewhere,) = session.breakpoints({"line": 9, "condition": "blockIdx.x == 2 && half == 3"})
    assert elsewhere["verified"] and "no thread of the block" in elsewhere["message"]
    (verified,) = session.breakpoints({"line": 9, "condition": "half == 3 && threadIdx.x == 2"})
    assert "message" not in verified and session.move("reverseContinue") == 9
    assert session.stop["hitBreakpointIds"] == [verified["id"]]
    assert session.evaluate("threadIdx.x") == "2" and session.evaluate("half") == "3"
    session.move("continue")
    assert session.stop["reason"] == "exception"
    # A plain one is of the thread in focus.
    session.breakpoints({"line": 9})
    session.move("reverseContinue")
    assert (session.evaluate("half"), session.evaluate("threadIdx.x")) == ("1", "0")


def test_data_is_followed_to_who_writes_it(client):
    session = client("odd_reduce_buggy")
    shared = session.rows("Shared memory")
    reference = next(row["variablesReference"] for row in shared if row["name"] == "parts")
    data = session.request("dataBreakpointInfo", variablesReference=reference, name="[1]")
    assert data["description"] == "parts[1]"
    session.request("setDataBreakpoints", breakpoints=[{"dataId": data["dataId"], "accessType": "write"}])
    assert session.move("reverseContinue") == 9
    assert session.stop["text"] == "thread (1, 0, 0) writes parts[1] = -8.809484"
    session.move("reverseContinue")
    before = session.session.position
    session.move("continue")
    assert session.session.position > before


def test_a_variable_in_a_register_is_followed(client):
    session = client("odd_reduce_buggy")
    session.move("stepBack")
    data = session.request("dataBreakpointInfo", name="size")
    session.request("setDataBreakpoints", breakpoints=[{"dataId": data["dataId"]}])
    lines = [session.move("reverseContinue") for _ in range(3)]
    assert lines == [11, 11, 11]
    assert session.stop["text"] == "thread (0, 0, 0) changes size"


def test_log_points_report_all_threads_and_do_not_stop(client):
    session = client("odd_reduce_buggy")
    session.breakpoints({"line": 11, "logMessage": "size {size} -> {half}, {missing}", "condition": "t == 5"})
    session.move("reverseContinue")
    assert session.stop["reason"] == "entry"
    assert session.outputs[-6:] == [
        f"thread (5, 0, 0): size {size} -> {half}, <there is no variable 'missing' here>"
        for size, half in ((3, 1), (6, 3), (12, 6), (24, 12), (48, 24), (96, 48))
    ]


def test_a_breakpoint_is_moved_to_the_next_line_with_code(client):
    session = client("odd_reduce_buggy")
    moved, behind, wrong, count = session.breakpoints(
        {"line": 3}, {"line": 99}, {"line": 9, "condition": "half =="}, {"line": 9, "hitCondition": "often"}
    )
    assert moved["verified"] and moved["line"] == 4
    assert not behind["verified"] and "no code" in behind["message"]
    assert wrong == {"verified": False, "line": 9, "message": "a value is missing at the end"}
    assert "number" in count["message"]


def test_arrays_are_paged_and_lanes_are_folded(client):
    session = client("odd_reduce_buggy")
    parts = next(row for row in session.rows("Shared memory") if row["name"] == "parts")
    assert parts["indexedVariables"] == 96
    page = session.request("variables", variablesReference=parts["variablesReference"], start=94, count=10)["variables"]
    assert [row["name"] for row in page] == ["[94]", "[95]"]
    assert page[0]["evaluateName"] == "parts[94]"
    lanes = session.values("Lanes")
    assert lanes["t"] == "0..31 step 1" and lanes["cols"].startswith("all ")
    panel = {row["name"]: row for row in session.request("gpuemu/lanes", frameId=session.frames[0]["id"])["lanes"]}
    assert panel["t"]["value"] == lanes["t"] and panel["t"]["runs"][5] == {"lanes": "5", "value": "5"}
    assert [run["lanes"] for run in panel["cols"]["runs"]] == ["0-31"]


def test_commands_of_the_console(client):
    session = client("odd_reduce_buggy")
    assert session.evaluate("readers parts[2]", "repl").startswith("no thread reads parts[2] after now")
    assert session.evaluate("who parts[0]", "repl").startswith("parts[0] = 2.6221428: line 9, thread (0, 0, 0)")
    assert "reads parts[1] = -8.809484" in session.evaluate("origin parts[0]", "repl")
    assert session.evaluate("lanes t + 1", "repl") == "t + 1 = 1..32 step 1"
    assert "no thread reads parts[2], which thread (2, 0, 0) wrote" in session.evaluate("why", "repl")
    assert session.evaluate("thread 33", "repl") == "thread (33, 0, 0)"
    assert session.stop["threadId"] == 2 and session.evaluate("t") == "33"
    with pytest.raises(DebugRequestError, match="there is no thread 96: there are 96 x 1 x 1"):
        session.evaluate("thread 96", "repl")
    with pytest.raises(CExpressionError, match="no variable 'foo'"):
        session.evaluate("foo")


def test_the_console_completes_commands_and_names(client):
    session = client("odd_reduce_buggy")

    def labels(text: str) -> list[str]:
        targets = session.request("completions", text=text, column=len(text) + 1)["targets"]
        return [target["label"] for target in targets]

    assert labels("wa") == ["watch", "warp", "warpSize"]
    assert labels("who pa") == ["parts"]
    assert labels("t + co") == ["cols"]


def test_another_block_is_recorded_when_it_is_looked_at(client):
    session = client("odd_reduce_buggy")
    assert session.evaluate("blockIdx.x") == "1"
    session.request("gpuemu/focus", block=[0, 0, 0], thread=3)
    assert (session.evaluate("blockIdx.x"), session.evaluate("threadIdx.x")) == ("0", "3")
    # Breakpoints are those of every block.
    session.breakpoints({"line": 8, "condition": "t == 40"})
    data = session.request("dataBreakpointInfo", name="y[0]")["dataId"]
    session.request("setDataBreakpoints", breakpoints=[{"dataId": data}])
    session.request("gpuemu/focus", block=[2, 0, 0])
    assert session.move("continue") == 8
    assert (session.evaluate("blockIdx.x"), session.evaluate("threadIdx.x")) == ("2", "40")
    session.breakpoints()
    session.move("continue")
    assert session.stop["description"] == "end of the recording"  # block 2 does not write y[0]
    session.request("gpuemu/focus", block=1)
    assert session.line == 13


def test_a_thread_of_another_warp_is_shown_where_it_goes_on(client):
    session = client("odd_reduce_buggy")
    for _ in range(6):
        session.move("stepBack")
    session.request("gpuemu/focus", thread=70)
    assert session.stop["threadId"] == 3 and session.evaluate("t") == "70"
    moment = session.session.tick
    line = session.line
    # Its own statements follow, of which the first may be before or after the moment.
    session.move("next")
    assert session.evaluate("t") == "70" and (session.session.tick, session.line) != (moment, line)
    session.move("stepBack")
    assert session.line == line


def test_instructions_memory_and_the_text_of_the_finding(client):
    session = client("odd_reduce_buggy")
    pointer = session.frames[0]["instructionPointerReference"]
    code = session.request("disassemble", memoryReference=pointer, instructionOffset=-2, instructionCount=6)
    assert code["instructions"][2]["address"] == pointer and code["instructions"][2]["line"] == 13
    session.move("stepBack", granularity="instruction")
    assert session.frames[0]["instructionPointerReference"] != pointer
    session.move("next", granularity="instruction")
    assert session.frames[0]["instructionPointerReference"] == pointer
    parts = next(row for row in session.rows("Shared memory") if row["name"] == "parts")
    memory = session.request("readMemory", memoryReference=parts["memoryReference"], count=4)
    assert memory["unreadableBytes"] == 0 and memory["data"]
    assert session.request("exceptionInfo")["exceptionId"] == "numeric/tolerance-exceeded"


def test_the_recording_of_a_block_ends_when_another_is_looked_at(client):
    session = client("odd_reduce_buggy")
    session.request("gpuemu/focus", block=[0, 0, 0])
    session.breakpoints({"line": 9, "condition": "half == 1"})
    session.move("continue")
    recording = weakref.ref(session.session.block.history)
    session.request("gpuemu/focus", block=[2, 0, 0])
    gc.collect()
    assert recording() is None


TWO_MISTAKES = """__global__ void halves(const float* x, float* y, int n) {
    __shared__ float parts[64];
    int t = threadIdx.x;
    parts[t] = t < n ? x[t] : 0.0f;
    if (t < n) y[t] = 0.5f * parts[(t + 1) % 64];
    __syncthreads();
    if (t == 0) y[n] = parts[0];
}
"""


def test_an_exception_filter_stops_at_the_findings_of_a_rule(tmp_path, project_client):
    (tmp_path / "halves.cu").write_text(TWO_MISTAKES)
    entry = (
        '[[kernels]]\nname = "halves"\nsource = "halves.cu"\nreference = "halves.py:halves"\n'
        '[kernels.dims]\nn = { min = 40, max = 41 }\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\nn = "n"\n'
        "[kernels.launch]\ngrid = 1\nblock = 64\n"
    )
    (tmp_path / "gpuemu.toml").write_text(entry)
    (tmp_path / "halves.py").write_text("def halves(inputs, n):\n    return 0.5 * inputs['x']\n")
    session = project_client(tmp_path)
    texts = {one.rule: one.text for one in session.session.subject.further}
    rule = "memory/out-of-bounds"
    assert session.session.subject.rule == "memory/shared-race" and rule in texts
    session.request("setExceptionBreakpoints", filters=["findings", rule])
    stops = []
    for command in ("reverseContinue", "continue", "continue"):
        session.move(command)
        stops.append((session.stop["reason"], session.stop.get("text")))
    assert ("exception", texts[rule]) in stops
    session.request("setExceptionBreakpoints", filters=[])
    assert [session.move(command) and session.stop["reason"] for command in ("reverseContinue", "continue")] == [
        "entry",
        "pause",
    ]


HANDED_OVER = """__device__ volatile int ready;
__device__ volatile float box[32];

__global__ void handed_over(const float* x, float* y, int n) {
    const int t = threadIdx.x;
    if (blockIdx.x == 1) {
        box[t] = t < n ? x[t] : 0.0f;
        __threadfence();
        __syncthreads();
        if (t == 0) ready = 1;
        return;
    }
    while (ready == 0) {}
    const float value = box[t];
    if (t < n) y[t] = 2.0f * value;
}
"""


def test_what_another_block_wrote_is_seen_where_it_is_read(tmp_path, project_client):
    (tmp_path / "handed_over.cu").write_text(HANDED_OVER)
    entry = (
        '[[kernels]]\nname = "handed_over"\nsource = "handed_over.cu"\nreference = "triple.py:triple"\n'
        '[kernels.dims]\nn = { min = 30, max = 32 }\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\nn = "n"\n'
        "[kernels.launch]\ngrid = 2\nblock = 32\n"
    )
    (tmp_path / "gpuemu.toml").write_text(entry)
    (tmp_path / "triple.py").write_text("def triple(inputs, n):\n    return 3.0 * inputs['x']\n")
    session = project_client(tmp_path)
    # A block that waits for a later one soon lets it start: the recording is short.
    assert session.session.block.recording.block == 0 and not session.session.block.begins_late
    wrong = session.evaluate("threadIdx.x")
    value = session.evaluate(f"x[{wrong}]")
    assert session.evaluate(f"box[{wrong}]") == value == session.evaluate("value")
    assert "written by another block, before line 14" in session.evaluate(f"who box[{wrong}]", "repl")
    assert "written by another block, before line 14" in session.evaluate(f"origin box[{wrong}]", "repl")
    assert "written by another block" in session.evaluate("origin value", "repl")
    session.evaluate("watch ready", "repl")
    assert session.move("reverseContinue") == 13
    assert session.stop["text"].endswith("ready = 1, written by another block")
    session.move("stepBack")
    assert session.evaluate("ready") == "0"


BULK_COPY = """#include <cstdint>
__global__ void doubled(const float* x, float* y, int n) {
    __shared__ alignas(128) float tile[256];
    __shared__ alignas(8) uint64_t barrier;
    const int t = threadIdx.x;
    const unsigned bar = (unsigned)__cvta_generic_to_shared(&barrier);
    const unsigned to = (unsigned)__cvta_generic_to_shared(tile);
    if (t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
    __syncthreads();
    if (t == 0) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 1024;" :: "r"(bar) : "memory");
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 1024, [%2];"
                     :: "r"(to), "l"(x + blockIdx.x * 256), "r"(bar) : "memory");
    }
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar) : "memory");
    const float value = tile[t];
    y[blockIdx.x * 256 + t] = 2.0f * value;
}
"""


def test_what_a_bulk_copy_wrote_is_seen_where_it_is_read(tmp_path, project_client):
    (tmp_path / "doubled.cu").write_text(BULK_COPY)
    entry = (
        '[build]\narch = "sm_90a"\n[[kernels]]\nname = "doubled"\nsource = "doubled.cu"\nreference = "triple.py:triple"\n'
        '[kernels.dims]\nn = { max = 256, multiple_of = 256 }\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\n'
        'n = "n"\n[kernels.launch]\ngrid = "n // 256"\nblock = 256\n'
    )
    (tmp_path / "gpuemu.toml").write_text(entry)
    (tmp_path / "triple.py").write_text("def triple(inputs, n):\n    return 3.0 * inputs['x']\n")
    session = project_client(tmp_path)
    assert session.evaluate("tile[threadIdx.x]") == session.evaluate("x[threadIdx.x]") == session.evaluate("value")
    assert "written by bulk copies" in session.evaluate("who tile[3]", "repl")
    assert "written by bulk copies" in session.evaluate("why", "repl")
