"""``gpuemu mcp`` over its streams, with a client that sends what no library would."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from pathlib import Path

import jsonschema
import pytest
from support.mcp_client import McpClient
from support.processes import descendants, workers

from gpuemu_lsp.mcp.schemas import array, nullable, record, shortened, text

PAST_THE_END = """\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = 2.0f * x[i];
}
void run(const float* x, float* y, int n) { scale<<<(n + 255) / 256, 256>>>(x, y, n); }
"""
SCALE = PAST_THE_END.replace("<= n", "< n")
INVERT = """\
__global__ void invert(const int* order, int* places, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) places[order[i]] = i;
}
"""
SLOW = {
    "scale.cu": SCALE,
    "ref.py": "def reference(inputs):\n    import time\n\n    time.sleep(300)\n",
    "gpuemu.toml": """\
[[kernels]]
name = "scale"
source = "scale.cu"
reference = "ref.py"
dims.n = { min = 1, max = 32 }
args = { x = { in = ["n"] }, y = { out = ["n"] }, n = "n" }
launch = { grid = 1, block = 32 }
""",
}
"""A check that takes long: its reference sleeps."""
STATELESS = pytest.mark.parametrize("stateless", [True, False], ids=["2026-07-28", "2025-11-25"])


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with McpClient(tmp_path_factory.mktemp("agent")) as started:
        yield started


@STATELESS
def test_the_server_describes_itself_in_both_forms(tmp_path, stateless):
    with McpClient(tmp_path, stateless=stateless) as client:
        if stateless:
            discovered = client.ask("server/discover")["result"]
            assert discovered["supportedVersions"] == ["2026-07-28"] and discovered["resultType"] == "complete"
        else:
            assert client.initialized["protocolVersion"] == "2025-11-25"
            assert "resultType" not in client.initialized
        tools = client.ask("tools/list")["result"]["tools"]
        names = [tool["name"] for tool in tools]
        assert names[0] == "check" and len(set(names)) == len(names)
        for tool in tools:
            jsonschema.Draft202012Validator.check_schema(tool["inputSchema"])
            jsonschema.Draft202012Validator.check_schema(tool["outputSchema"])
        assert client.close() == 0


def test_definitions_of_a_schema_stand_for_what_they_replace():
    part = record({name: text("a long description of it, as many words as it takes") for name in "abc"})
    other = record({name: nullable(array(text("another description of a part"))) for name in "abcd"})
    schema = record({"finding": nullable(part), "list": array(part), "x": other, "y": record({"z": other})})
    short = shortened(schema)
    assert set(short["$defs"]) == {"finding", "x"} and len(json.dumps(short)) < len(json.dumps(schema))
    value = dict.fromkeys("abc", "")
    lists = {name: [""] for name in "abcd"}
    whole = {"finding": None, "list": [value], "x": lists, "y": {"z": lists}}
    jsonschema.validate(whole, short)
    for wrong in ({**whole, "list": [{}]}, {**whole, "y": {"z": {**lists, "a": 3}}}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, short)
    assert shortened(record({"a": text()})) == record({"a": text()})


def test_a_revision_that_is_not_known_is_refused_with_those_that_are(client):
    error = client.ask("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}})
    # The client of the tests overwrites the key: sent by hand.
    assert "result" in error
    meta = {"io.modelcontextprotocol/protocolVersion": "2031-01-01"}
    client.send(json.dumps({"jsonrpc": "2.0", "id": "new", "method": "ping", "params": {"_meta": meta}}).encode())
    assert client.answer("new")["error"]["code"] == -32022
    assert client.answer("new")["error"]["data"] == {"supported": ["2026-07-28"], "requested": "2031-01-01"}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'{"id": 1}', -32600),
        (b'{"id": true, "method": "ping"}', -32600),
        (b'{"id": "a", "method": "none"}', -32601),
        (b'{"id": "a", "method": "tools/call", "params": [1]}', -32602),
        (b'{"id": "a", "method": "tools/call", "params": {"name": "none"}}', -32602),
        (b'{"id": "a", "method": "resources/read", "params": {"uri": "file:///etc/passwd"}}', -32602),
    ],
)
def test_what_is_not_a_request_gets_an_error(client, line, code):
    client.send(line)
    assert client.next()["error"]["code"] == code
    assert client.ask("ping")["result"]["resultType"] == "complete"


def test_a_source_has_a_verdict_and_a_correct_one_another(client):
    schema = next(t["outputSchema"] for t in client.ask("tools/list")["result"]["tools"] if t["name"] == "check")
    wrong, right = client.call("check", source=PAST_THE_END), client.call("check", source=SCALE)
    for result in (wrong, right):
        jsonschema.validate(result, schema)
    assert wrong["verdict"] == "unsafe" and right["verdict"] == "clean"
    finding = wrong["findings"][0]
    assert (finding["rule"], finding["line"], finding["element"]["buffer"]) == ("memory/out-of-bounds", 3, "x")
    # Numbers were compared with nothing: the verdict says so.
    assert [point["what"] for point in right["did_not_run"]] == ["comparison of its numbers"]
    # Without the function that launches it, the launch is a guess too.
    alone = client.call("check", source=SCALE.partition("void run")[0])
    points = [(point["what"], point["kernel"]) for point in alone["did_not_run"]]
    assert points == [("comparison of its numbers", "scale"), ("launches that its callers make", "scale")]
    assert alone["verdict"] == "not-checked"
    read = client.ask("resources/read", {"uri": f"gpuemu://findings/{finding['id']}"})["result"]["contents"][0]
    assert json.loads(read["text"]) == finding


def test_a_kernel_with_a_finding_that_rests_on_an_assumption_is_not_clean(client):
    result = client.call("check", source=INVERT)
    assert result["verdict"] == "not-checked" and "assumes" in result["summary"]
    messages = [row["message"] for row in result["findings"] if row["severity"] == "information"]
    point = next(row for row in result["did_not_run"] if row["what"] == "sizes and launches that are assumed")
    assert messages and any(message in point["reason"] for message in messages)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "Give one of path, source and files."),
        ({"path": 3}, "path must be a string, not 3"),
        ({"source": SCALE, "budget": 0}, "budget must be at least 1, not 0"),
        ({"source": SCALE, "budgets": 1}, "arguments has no 'budgets'"),
        ({"path": "none.cu"}, "'none.cu' is neither a file nor a registered kernel"),
        ({"files": {"../kernel.cu": SCALE}}, "'../kernel.cu' is not the name of a file in the folder"),
        ({"files": {"notes.txt": "x"}}, "No file has kernels"),
        ({"source": SCALE, "kernel": "scales"}, "There is no kernel 'scales'; there are: scale."),
    ],
)
def test_arguments_that_mean_nothing_are_refused_in_words(client, arguments, said):
    assert said in client.refusal("check", **arguments)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("__global__ void broken(float* y) { y[0] = z; }", 'identifier "z" is undefined'),
        ("int x;", "has no __global__ function"),
        ("__global__ void table(float** rows, int n) { rows[n][0] = 1.0f; }", "rows"),
    ],
)
def test_what_did_not_run_is_never_clean(client, source, reason):
    result = client.call("check", source=source)
    assert result["verdict"] == "not-checked"
    assert any(reason in point["reason"] and point["next"] for point in result["did_not_run"])


def test_a_check_ends_within_its_budget_and_says_so(client):
    began = time.monotonic()
    result = client.call("check", files=SLOW, budget=3)
    assert time.monotonic() - began < 30  # the budget, and what a loaded machine adds
    assert result["verdict"] == "not-checked"
    assert result["did_not_run"][0]["reason"] == "The check of 'scale' was ended: the budget of 3 s was used up."


@STATELESS
def test_a_cancelled_call_has_no_answer_and_leaves_no_process(tmp_path, stateless):
    with McpClient(tmp_path, stateless=stateless) as client:
        call = client.begin("check", {"files": SLOW}, progressToken="p")
        while (progress := client.next()).get("method") != "notifications/progress":
            pass
        assert progress["params"]["progressToken"] == "p"
        client.notify("notifications/cancelled", {"requestId": call, "reason": "enough"})
        assert client.call("check", source=SCALE)["verdict"] == "clean"
        assert all(message.get("id") != call for message in client.received)
        processes = descendants(client.process.pid)
        assert client.close() == 0
        assert_gone(processes)


def test_progress_only_grows(client):
    call = client.begin("check", {"source": SCALE}, progressToken=7)
    client.answer(call)
    values = [
        message["params"]["progress"]
        for message in client.received
        if message.get("method") == "notifications/progress" and message["params"]["progressToken"] == 7
    ]
    assert values and values == sorted(set(values)) and values[-1] == 1


def test_a_server_that_is_killed_leaves_no_process_and_the_next_one_removes_its_folder(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with McpClient(tmp_path, environment=environment) as client:
        client.begin("check", {"files": SLOW}, progressToken=1)
        client.next()
        folder = next(tmp_path.glob("gpuemu-mcp-*"))
        assert folder.stat().st_mode & 0o777 == 0o700
        processes = descendants(client.process.pid)
        client.process.send_signal(signal.SIGKILL)
        client.process.wait()
        assert_gone(processes)
    os.utime(folder, (0, 0))
    with McpClient(tmp_path, environment=environment) as client:
        client.call("check", source=SCALE)
        assert not folder.exists()
        assert client.close() == 0
    assert not list(tmp_path.glob("gpuemu-mcp-*"))


def test_killed_workers_mean_not_checked_and_others_take_their_place(tmp_path):
    with McpClient(tmp_path) as client:
        call = client.begin("check", {"files": SLOW}, progressToken=1)
        client.next()
        answered = threading.Event()

        def kill() -> None:
            # A check whose worker was killed begins once more.
            while not answered.wait(0.7):
                for pid in workers(client.process.pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            result = client.answer(call)["result"]["structuredContent"]
        finally:
            answered.set()
            killer.join()
        assert result["verdict"] == "not-checked" and "SIGKILL" in result["did_not_run"][0]["reason"]
        assert client.call("check", source=SCALE)["verdict"] == "clean"


def test_a_changed_configuration_is_named(tmp_path):
    (tmp_path / "scale.cu").write_text(SCALE)
    (tmp_path / "gpuemu.toml").write_text("[project]\nname = 'p'\n")
    git = f"git -C {tmp_path} -c user.name=a -c user.email=a@b.c"
    assert os.system(f"{git} init -q && {git} add . && {git} commit -qm first") == 0
    with McpClient(tmp_path) as client:
        assert client.call("check", path="scale.cu")["changed_since_commit"] == []
        (tmp_path / "gpuemu.toml").write_text("[project]\nname = 'p'\n\n[validation]\nseed = 1\n")
        assert client.call("check", path="scale.cu")["changed_since_commit"] == [
            {"file": "gpuemu.toml", "state": "changed"}
        ]


def test_a_folder_that_is_removed_is_named_and_used_again_when_it_is_back(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    with McpClient(folder) as client:
        client.ask("ping")
        folder.rmdir()
        assert str(folder) in client.refusal("kernels", path=".")
        folder.mkdir()
        (folder / "scale.cu").write_text(SCALE)
        assert [row["kernel"] for row in client.call("kernels", path="scale.cu")["kernels"]] == ["scale"]


def test_a_number_that_json_lacks_is_refused(tmp_path):
    with McpClient(tmp_path) as client:
        client.send(
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "more", "arguments": NaN}}'
        )
        assert "NaN" in client.answer(None)["error"]["message"]


def assert_gone(processes: set[int]) -> None:
    deadline = time.monotonic() + 20
    while left := {pid for pid in processes if Path(f"/proc/{pid}/stat").exists() and not is_zombie(pid)}:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
