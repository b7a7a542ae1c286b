"""An op that cannot be imported: no command, format or comparison shows the project as clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuemu import Client
from gpuemu_lsp.cli.gpuemu import main as gpuemu

ENTRY = """[[ops]]
name = "double"
{}
reference = "ref.py"
[ops.args]
x = {{ in = [8] }}
y = {{ out = [8] }}
"""
LIBRARY = "def double(x):\n    return 2 * x\n"
REASONS = {
    "not installed": ('op = "mylib:double"', f"import no_such_package\n{LIBRARY}", "pip install no_such_package"),
    "no interpreter": ('op = "mylib:double"\npython = "broken"', LIBRARY, "cannot be started"),
}


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    Path("ref.py").write_text("def reference(inputs):\n    return 2 * inputs['x']\n")
    Path("broken").write_text("no program")

    def call(*arguments: str) -> tuple[int, str]:
        code = gpuemu(list(arguments))
        captured = capsys.readouterr()
        return code, " ".join((captured.out + captured.err).split())

    return call


def write(reason: str) -> str:
    call, library, words = REASONS[reason]
    Path("gpuemu.toml").write_text(ENTRY.format(call))
    Path("mylib.py").write_text(library)
    return words


COMMANDS = (("test",), ("ci", "--quick"), ("fuzz", "--op", "double"), ("baseline", "v1"), ("report",))


@pytest.mark.parametrize("reason", REASONS)
def test_commands(run, reason):
    words = write(reason)
    for command in (*COMMANDS, ("diff", "--baseline", "v1")):
        code, text = run(*command)
        assert (code, words in text) == (2, True), (command, text)
    code, text = run("report", "--quick", "--signed", "--output", "r.txt")
    assert code == 2
    assert not Path("r.txt.intoto.json").exists()


FORMATS = {
    "text": "engine/not-executed",
    "json": '"status": "not-executed"',
    "jsonl": "not-executed",
    "junit": '<error type="engine/not-executed"',
    "sarif": '"ruleId": "engine/not-executed"',
    "github": "gpuemu engine/not-executed (double)",
    "gitlab": '"check_name": "engine/not-executed"',
    "markdown": "not-executed",
    "html": "not-executed",
}


def test_formats(run):
    write("not installed")
    for form, words in FORMATS.items():
        code, text = run("ci", "--quick", "--format", form)
        assert (code, words in text) == (2, True), (form, text)


def test_an_op_that_ran_for_the_baseline_and_does_not_run_now(run):
    write("not installed")
    Path("mylib.py").write_text(LIBRARY)
    Path("gpuemu.toml").write_text(ENTRY.format('op = "mylib:double"'))
    assert run("baseline", "v1")[0] == 0
    Path("mylib.py").write_text("import no_such_package\n")
    for options, code in (((), 2), (("--fail-on-regression",), 1)):
        found, text = run("diff", "--baseline", "v1", *options)
        assert (found, "no_such_package" in text) == (code, True)
    _, text = run("diff", "--baseline", "v1", "--format", "json")
    assert "engine/not-executed" in {one["rule"] for one in json.loads(text[: text.rindex("}") + 1])["findings"]}
    with pytest.raises(ValueError, match="nothing was measured: 'double' was not run"):
        Client(Path()).compare_baseline("v1")


def test_changed_keyword_arguments_are_named(run):
    Path("mylib.py").write_text("def double(x, factor, causal=False):\n    return factor * x\n")
    Path("ref.py").write_text("def reference(inputs, factor, causal=False):\n    return factor * inputs['x']\n")
    entry = ENTRY.format('op = "mylib:double"') + "[ops.kwargs]\n"
    Path("gpuemu.toml").write_text(entry + "factor = 2\n")
    assert run("baseline", "v1")[0] == 0
    assert "arguments of the op" not in run("diff", "--baseline", "v1")[1]
    Path("gpuemu.toml").write_text(entry + "factor = 3\ncausal = true\n")
    assert "arguments of the op: factor 2 -> 3, causal (none) -> True" in run("diff", "--baseline", "v1")[1]
