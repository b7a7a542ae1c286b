"""Ops in the editor: diagnostics on the function, its entry and its reference; checks on save; test items."""

from __future__ import annotations

from support.lsp_editor import Editor

CONFIG = """[[ops]]
name = "double"
op = "mylib:double"
reference = "ref.py"
[ops.dims]
n = { max = 40 }
[ops.args]
x = { in = ["n"] }
y = { out = ["n"] }
"""
GOOD = "import numpy as np\n\n\ndef double(x):\n    return 2 * x\n"
WRONG = GOOD.replace("2 * x", "2 * np.abs(x)")
REFERENCE = "def reference(inputs):\n    y = inputs['x'] * 2\n    return y\n"


def write(editor: Editor, config: str = CONFIG, op: str = GOOD, reference: str = REFERENCE) -> None:
    for name, text in (("gpuemu.toml", config), ("mylib.py", op), ("ref.py", reference)):
        (editor.root / name).write_text(text, encoding="utf-8")


def lines(editor: Editor, name: str) -> set[tuple[str, int]]:
    return {(str(item.code), item.range.start.line) for item in editor.found(name)}


async def test_an_error_is_shown_on_the_function_its_entry_and_its_reference(editor: Editor):
    write(editor, op=WRONG)
    await editor.start()
    editor.open("mylib.py")
    await editor.idle()
    assert lines(editor, "mylib.py") == {("numeric/tolerance-exceeded", 3)}
    assert lines(editor, "gpuemu.toml") == {("numeric/tolerance-exceeded", 1)}
    assert lines(editor, "ref.py") == {("numeric/tolerance-exceeded", 2)}
    editor.save("mylib.py", GOOD)
    await editor.idle()
    assert not any(editor.found(name) for name in ("mylib.py", "gpuemu.toml", "ref.py"))


async def test_a_saved_reference_checks_its_op(editor: Editor):
    write(editor)
    await editor.start()
    editor.open("mylib.py")
    editor.open("ref.py")
    await editor.idle()
    assert editor.found("mylib.py") == []
    editor.save("ref.py", REFERENCE.replace("* 2", "* 3"))
    await editor.idle()
    assert lines(editor, "mylib.py") == {("numeric/tolerance-exceeded", 3)}


async def test_a_saved_module_that_the_op_imports_checks_it(editor: Editor):
    write(editor, op="import helper\n\n\ndef double(x):\n    return helper.factor * x\n")
    (editor.root / "helper.py").write_text("factor = 2\n", encoding="utf-8")
    await editor.start()
    editor.open("mylib.py")
    editor.open("helper.py")
    await editor.idle()
    assert editor.found("mylib.py") == []
    editor.save("helper.py", "factor = 3\n")
    await editor.idle()
    assert lines(editor, "mylib.py") == {("numeric/tolerance-exceeded", 3)}


async def test_an_installed_op_is_checked_with_its_configuration(editor: Editor):
    write(editor, CONFIG.replace("mylib:double", "numpy:square"))
    await editor.start()
    editor.open("gpuemu.toml")
    await editor.idle()
    assert lines(editor, "gpuemu.toml") == {("numeric/tolerance-exceeded", 1)}
    assert lines(editor, "ref.py") == {("numeric/tolerance-exceeded", 2)}
    editor.save("gpuemu.toml", CONFIG.replace("mylib:double", "numpy:square").replace("ref.py", "other.py"))
    (editor.root / "other.py").write_text("def reference(inputs):\n    return inputs['x'] ** 2\n")
    editor.save("gpuemu.toml")
    await editor.idle()
    assert lines(editor, "gpuemu.toml") == set()


async def test_nothing_of_an_untrusted_workspace_is_imported(editor: Editor):
    write(editor, op="import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n" + GOOD)
    await editor.start(trusted=False)
    editor.open("mylib.py")
    await editor.idle()
    assert {code for code, _ in lines(editor, "mylib.py")} == {"engine/not-executed"}
    assert not (editor.root / "ran").exists()


async def test_ops_are_test_items_and_one_that_did_not_run_is_red(editor: Editor):
    config = CONFIG + '[[ops]]\nname = "attention"\nmodule = "flash_attn"\nreference = "ref.py"\n'
    write(editor, config, WRONG)
    await editor.start()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    items = {item["label"]: item for item in tests if item["kind"] == "kernel"}
    assert set(items) == {"double", "attention"}
    assert items["double"]["range"]["start"]["line"] == 3
    await editor.ask("gpuemu/runTests", {"runId": "r", "include": None, "exclude": [], "deep": False})
    await editor.until(lambda: bool(editor.received("gpuemu/testsEnded")))
    states = {item["id"]: item["state"] for item in editor.received("gpuemu/testState")}
    assert states[items["double"]["id"]] == "failed"
    assert states[items["attention"]["id"]] == "errored"
    await editor.idle()
    assert ("engine/not-executed", 10) in lines(editor, "gpuemu.toml")
    assert len(editor.found("gpuemu.toml")) == 2
