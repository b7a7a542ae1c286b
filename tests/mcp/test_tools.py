"""Each tool of ``gpuemu mcp`` on small kernels: what it says, in the form that its schema promises."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from support.mcp_client import McpClient

SCALE = """\
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = 2.0f * x[i];
    }
}
"""
PAST_THE_END = SCALE.replace("i < n", "i <= n")
NEIGHBOUR = """\
__global__ void neighbour(const float* x, float* y, int n) {
    __shared__ float a[64];
    int t = threadIdx.x;
    a[t] = x[t];
    y[t] = a[(t + 33) % 64];
}
void run(const float* x, float* y) { neighbour<<<1, 64>>>(x, y, 64); }
"""
BRANCHES = SCALE.replace("y[i] = 2.0f * x[i];", "y[i] = 2.0f * x[i];\n        if (n == 123457) y[0] = 0.0f;")
CONFIG = """\
[[kernels]]
name = "scale"
source = "scale.cu"
reference = "ref.py"
dims.n = { min = 1, max = 512 }
args = { x = { in = ["n"] }, y = { out = ["n"] }, n = "n" }
launch = { grid = "ceil_div(n, 256)", block = 256 }
"""
REFERENCE = "def reference(inputs):\n    return 2 * inputs['x']\n"


def project(kernel: str) -> dict[str, str]:
    return {"scale.cu": kernel, "gpuemu.toml": CONFIG, "ref.py": REFERENCE}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with McpClient(tmp_path_factory.mktemp("agent")) as started:
        yield started


@pytest.fixture(scope="module")
def schemas(client):
    return {tool["name"]: tool["outputSchema"] for tool in client.ask("tools/list")["result"]["tools"]}


@pytest.fixture
def call(client, schemas):
    def called(tool: str, **arguments):
        result = client.call(tool, **arguments)
        jsonschema.validate(result, schemas[tool])
        return result

    return called


def test_an_explanation_names_both_parties_of_a_race_and_the_smallest_sizes(call):
    finding = call("check", source=NEIGHBOUR)["findings"][0]
    assert finding["rule"] == "memory/shared-race" and finding["element"]["buffer"] == "a"
    assert sorted(party["line"] for party in finding["parties"]) == [4, 5]
    assert {party["access"] for party in finding["parties"]} == {"reads", "writes"}
    (explanation,) = call("explain", id=finding["id"])["explanations"]
    assert explanation["verdict"] == "still fails" and explanation["finding"]["line"] == finding["line"]
    assert len(explanation["chains"]) == 2 and explanation["chains"][0]["steps"]
    assert explanation["minimal"]["complete"] and explanation["minimal_problem"] is None


def test_a_case_is_minimized_and_run_again_on_other_text(call):
    finding = call("check", source=PAST_THE_END)["findings"][0]
    (smaller,) = call("minimize", id=finding["id"])["minimized"]
    assert smaller["minimal"]["sizes"] == {"n": 1} and smaller["verdict"] == "still fails"
    (again,) = call("reproduce", id=finding["id"])["replays"]
    (fixed,) = call("reproduce", id=finding["id"], source=SCALE)["replays"]
    assert (again["verdict"], fixed["verdict"]) == ("still fails", "fixed")
    assert again["inputs_digest"] == fixed["inputs_digest"]
    # The kernel that was checked is as it was.
    (still,) = call("reproduce", id=finding["id"])["replays"]
    assert still["verdict"] == "still fails"


def test_wrong_numbers_are_wrong_and_a_reference_makes_clean_complete(call):
    result = call("check", files=project(SCALE.replace("2.0f", "2.5f")))
    assert result["verdict"] == "wrong"
    element = result["findings"][0]["element"]
    assert element["buffer"] == "y" and element["index"] and element["expected"] != element["actual"]
    result = call("check", files=project(SCALE))
    assert result["verdict"] == "clean" and result["did_not_run"] == []
    assert {row["role"] for row in result["sources"]} == {"source", "reference"}


def test_two_versions_differ_at_an_element_and_the_store_that_wrote_it(call):
    before = {"files": project(SCALE)}
    result = call("compare", before=before, after={"files": project(SCALE.replace("2.0f", "2.5f"))})
    assert result["verdict"] == "differs"
    difference = result["versions"][0]["difference"]
    assert difference["output"] == "y" and difference["store"]["line"] == 4
    assert difference["after"] == pytest.approx(1.25 * difference["before"])
    same = SCALE.replace("2.0f * x[i]", "x[i] + x[i]")
    assert call("compare", before=before, after={"files": project(same)})["verdict"] == "same"
    result = call("compare", before=before, after={"source": PAST_THE_END})
    assert result["verdict"] == "not compared"
    assert any("memory/out-of-bounds" in reason for reason in result["versions"][0]["left_out"])


def test_coverage_names_what_no_case_reaches(call):
    result = call("coverage", source=BRANCHES, cases=2)
    assert result["cases"] == 2 and result["percent"] < 100
    assert 5 in [row["line"] for row in result["missed"]]


def test_counters_have_lines_and_registers(call):
    (kernel,) = call("counters", source=SCALE)["kernels"]
    assert kernel["resources"]["sm_80"]["registers"] > 0
    line = next(row for row in kernel["counters"]["float32"]["lines"] if row["line"] == 4)
    assert {traffic["space"] for traffic in line["traffic"]} == {"global"}


def test_the_code_of_a_line(client, call):
    result = call("ptx", source=SCALE, line=4)
    assert any("st.global" in row["text"] for row in result["lines"])
    assert "these have: " in client.refusal("ptx", source=SCALE, line=60)


def test_a_kernel_is_registered_and_listed(tmp_path, client, call):
    (tmp_path / "scale.cu").write_text(SCALE)
    path = str(tmp_path / "scale.cu")
    assert [row["registered"] for row in call("kernels", path=path)["kernels"]] == [False]
    written = call("register", path=path, kernel="scale")
    assert Path(written["config"]).read_text().count("[[kernels]]") == 1 and Path(written["reference"]).exists()
    assert [row["registered"] for row in call("kernels", path=path)["kernels"]] == [True]
    assert client.refusal("register", path=path, kernel="scale") == "scale is registered already."


def test_a_long_result_is_cut_and_the_rest_can_be_had(call):
    many = "".join(PAST_THE_END.replace("scale", f"scale_{number}") for number in range(12))
    result = call("check", source=many)
    (rest,) = result["rest"]
    assert len(result["findings"]) == 10 and rest["of"] == "findings"
    seen = [finding["id"] for finding in result["findings"]]
    while rest:
        more = call("more", cursor=rest["cursor"])
        assert len(more["items"]) == min(10, rest["items"])
        seen += [finding["id"] for finding in more["items"]]
        (rest,) = more["rest"] or (None,)
    assert len(seen) == len(set(seen)) == 24  # an error and a hint of each kernel


def test_what_is_not_there_is_said(client):
    assert "There is no finding and no stored case '12'" in client.refusal("explain", id="12")
    hint = next(row for row in client.call("check", source=SCALE)["findings"] if row["severity"] == "hint")
    assert "is not about a case" in client.refusal("explain", id=hint["id"])
    assert "There is no file" in client.refusal("judge", answer="none.py")
    assert "no task was found" in client.refusal("judge", answer_source="class ModelNew: pass\n")
    assert "There is no rest 'x'" in client.refusal("more", cursor="x")


def test_a_task_that_fails_is_not_judged(call):
    task = "raise RuntimeError('no')\nclass Model: pass\ndef get_inputs(): return []\n"
    (row,) = call("judge", answer_source="class ModelNew: pass\n", task_source=task)["rows"]
    assert row["verdict"] == "not judged" and row["reason"]
