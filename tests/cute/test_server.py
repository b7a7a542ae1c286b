"""Kernels of CuTe DSL in an editor: a run of their program checks them, and is made again when the file is saved."""

from __future__ import annotations

from pathlib import Path

SAXPY = (Path(__file__).parent / "programs" / "saxpy.py").read_text()
KERNEL = 11
WRONG = SAXPY.replace("if i < cute.size(x)", "if i <= cute.size(x)")


async def test_a_run_from_the_editor_checks_the_kernel_and_a_save_repeats_it(editor):
    (editor.root / "saxpy.py").write_text(SAXPY)
    await editor.start()
    editor.open("saxpy.py")
    await editor.idle()
    assert "not run" in (await editor.lenses("saxpy.py"))[KERNEL - 1]
    assert await editor.command("gpuemu.run", editor.uri("saxpy.py")) == {"queued": 1}
    await editor.until(lambda: bool(editor.received("gpuemu/launchesChanged")))
    await editor.idle()
    assert "clean" in (await editor.lenses("saxpy.py"))[KERNEL - 1]
    assert "registers" in await editor.hover("saxpy.py", KERNEL, 6)
    artifact = await editor.ask(
        "gpuemu/artifact", {"textDocument": {"uri": editor.uri("saxpy.py")}, "kernel": "saxpy_kernel", "form": "ptx"}
    )
    line = SAXPY.splitlines().index("        y[i] = a * x[i] + y[i]")
    code = artifact["text"].splitlines()
    rows = [row for span in artifact["map"] if span["line"] == line for row in code[span["first"] : span["last"] + 1]]
    assert any("st.global" in row for row in rows)
    editor.save("saxpy.py", WRONG)
    await editor.until(lambda: any(one.code == "memory/out-of-bounds" for one in editor.found("saxpy.py")))
    assert {one.range.start.line for one in editor.found("saxpy.py") if one.severity == 1} == {line}
