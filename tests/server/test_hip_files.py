"""HIP files in the language server: diagnostics as those of CUDA, and hovers with what was compiled."""

from __future__ import annotations

from support.lsp_editor import Editor

SCALE = """#include <hip/hip_runtime.h>
__global__ void scale(const float* x, float* y, int n) {
    int i = hipBlockIdx_x * hipBlockDim_x + hipThreadIdx_x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""


async def test_a_hip_file_has_diagnostics_a_hover_and_a_symbol(editor: Editor):
    (editor.root / "scale.hip").write_text(SCALE.replace("i < n", "i <= n"), encoding="utf-8")
    await editor.start()
    editor.open("scale.hip")
    await editor.idle()
    errors = [(item.code, item.range.start.line) for item in editor.found("scale.hip") if item.severity == 1]
    assert errors == [("memory/out-of-bounds", 3)]
    editor.save("scale.hip", SCALE.replace("2.0f * x[i]", "__any(i) * x[i]"))
    await editor.idle()
    refused = [(item.code, item.range.start.line) for item in editor.found("scale.hip") if item.severity in (1, 2)]
    assert refused == [("engine/not-executed", 3)]
    editor.save("scale.hip", SCALE)
    await editor.idle()
    assert [item for item in editor.found("scale.hip") if item.severity in (1, 2)] == []
    assert "registers" in await editor.hover("scale.hip", 1, SCALE.split("\n")[1].index("scale"))
