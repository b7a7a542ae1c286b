// CUDA in a string of a Python file: no server before it is opened, then everything at its place in the .py.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {scratch, vsix}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix });
const { page } = bench;
const folder = path.join(facts.scratch, "model");
const file = path.join(folder, "model.py");

const MODEL = `import cupy as cp

# Doubles every element: ü
scale = cp.RawKernel(r"""
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i] = 2.0f * x[i];
}
""", "scale")


def run(x, y):
    scale((x.size + 255) // 256, 256, (x, y, x.size))
`;
const STORE = 8;

function notebook(cells) {
  const code = (text) => ({ cell_type: "code", execution_count: null, metadata: {}, outputs: [], source: text });
  const metadata = { language_info: { name: "python" } };
  return JSON.stringify({ cells: cells.map(code), metadata, nbformat: 4, nbformat_minor: 4 });
}

try {
  fs.mkdirSync(folder);
  fs.writeFileSync(path.join(folder, "plain.py"), "import numpy as np\n\n\ndef double(x):\n    return 2 * x\n");
  fs.writeFileSync(file, MODEL);
  const cells = ["%matplotlib inline\nimport cupy as cp", MODEL.replace("import cupy as cp\n\n", "")];
  fs.writeFileSync(path.join(folder, "work.ipynb"), notebook(cells));
  await bench.open(folder);

  await bench.step("a Python file without kernels starts nothing", async () => {
    await bench.file("plain.py");
    await page.waitForTimeout(3000); // nothing may happen
    assert(!(await bench.says("gpuemu")));
    assert.equal(await page.locator(".codelens-decoration").count(), 0);
  });

  await bench.step("the diagnostic is on the line of the string, the lens above the kernel", async () => {
    await bench.file("model.py");
    await page.locator(".monaco-editor .squiggly-error").first().waitFor();
    assert.deepEqual([...new Set(await bench.underlinedLines())], [STORE]);
    await page.locator(".codelens-decoration a").filter({ hasText: "FAILED" }).first().waitFor();
    await until("the status counts it", () => bench.says("1 kernel fails"));
  });

  await bench.step("the hover has registers and result", async () => {
    await page.keyboard.press("Control+Shift+M");
    await bench.rows(".markers-panel").filter({ hasText: /gpuemu.*memory\/out-of-bounds/ }).first().waitFor();
    await bench.goTo(5, 'extern "C" __global__ void s'.length);
    await bench.command("Show or Focus Hover");
    const hover = page.locator(".monaco-hover:visible");
    await hover.filter({ hasText: /registers/ }).waitFor();
    await hover.filter({ hasText: /FAILED, \d+ of \d+ cases/ }).waitFor();
    await page.waitForTimeout(500); // it fades in
    await bench.shot("python");
    await page.keyboard.press("Escape");
    await bench.command("View: Hide Panel");
  });

  await bench.step("the Testing view has the file and its kernel", async () => {
    await bench.command("Testing: Focus on Test Explorer View");
    await bench.expand("model.py");
    await bench.test("scale").locator(".codicon-testing-failed-icon").waitFor();
    assert.equal((await bench.testLabels()).length, 2);
  });

  await bench.step("the PTX is shown next to the source, with the instructions of the line of the .py", async () => {
    await bench.file("model.py");
    await bench.goTo(STORE, 5);
    await bench.command("gpuemu: Show PTX to the Side");
    await page.locator(".editor-group-container .view-lines").filter({ hasText: /\.entry|\b(ld|st|mov|setp)\.\w/ }).first().waitFor();
    await until("instructions are marked", async () => (await bench.markedLines()) > 0);
    await bench.shot("python-ptx");
  });

  await bench.step("the diagnostic goes when the bug is fixed and saved", async () => {
    await page.locator(".tab").filter({ hasText: "model.py" }).click();
    await bench.replaceText(MODEL.replace("i <= n", "i < n"), file);
    await page.locator(".monaco-editor .squiggly-error").first().waitFor({ state: "detached" });
    await bench.test("scale").locator(".codicon-testing-passed-icon").waitFor();
  });

  await bench.step("a notebook has the diagnostic in its cell, and the status counts it", async () => {
    await bench.file("work.ipynb");
    const cell = page.locator(".notebook-editor .code-cell-row").nth(1);
    await cell.locator(".squiggly-error").first().waitFor();
    await page.keyboard.press("Control+Shift+M");
    const rows = bench.rows(".markers-panel").filter({ hasText: /memory\/out-of-bounds/ });
    await rows.filter({ hasText: /Ln 6\b/ }).first().waitFor();
    await bench.shot("notebook");
    await bench.command("View: Hide Panel");
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
