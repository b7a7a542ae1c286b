// A registered Triton kernel in a .py: everything at its place, until its mask is there.
import assert from "node:assert/strict";
import path from "node:path";
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix, line, start, end, fixed}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix });
const { page } = bench;
const file = path.join(facts.folder, "softmax.py");
const STORE = facts.line + 1;

try {
  await bench.open(facts.folder);

  await bench.step("the diagnostic is on the line of the store, the lens above the kernel", async () => {
    await bench.file("softmax.py");
    await page.locator(".monaco-editor .squiggly-error").first().waitFor();
    assert.deepEqual([...new Set(await bench.underlinedLines())], [STORE]);
    await page.locator(".codelens-decoration a").filter({ hasText: "FAILED" }).first().waitFor();
    await until("the status counts it", () => bench.says("1 kernel fails"));
  });

  await bench.step("the Problems panel names its rule, line and column", async () => {
    await page.keyboard.press("Control+Shift+M");
    const row = bench.rows(".markers-panel").filter({ hasText: /gpuemu.*memory\/out-of-bounds/ }).first();
    await row.waitFor();
    assert.match((await row.innerText()).replaceAll("\u00a0", " "), new RegExp(`Ln ${STORE}, Col ${facts.start + 1}\\b`));
  });

  await bench.step("the hover has specialisation, registers and result", async () => {
    await bench.goTo(9, "def softmax".length);
    await bench.command("Show or Focus Hover");
    const hover = page.locator(".monaco-hover:visible");
    await hover.filter({ hasText: /specialisation: BLOCK = \d+.*num_warps = 4, num_stages = 3/ }).waitFor();
    await hover.filter({ hasText: /registers/ }).waitFor();
    await hover.filter({ hasText: /FAILED, \d+ of \d+ cases/ }).waitFor();
    await page.waitForTimeout(500); // it fades in
    await bench.shot("triton");
    await page.keyboard.press("Escape");
    await bench.command("View: Hide Panel");
  });

  await bench.step("the Testing view has the failed kernel and its message", async () => {
    await bench.command("Testing: Focus on Test Explorer View");
    await bench.expand("softmax.py");
    await bench.test("softmax_kernel").locator(".codicon-testing-failed-icon").waitFor();
    assert.equal((await bench.testLabels()).length, 2);
    await bench.shot("triton-tests");
  });

  await bench.step("the PTX is shown next to the source, with the instructions of the line of the .py", async () => {
    await bench.file("softmax.py");
    await bench.goTo(STORE, 5);
    await bench.command("gpuemu: Show PTX to the Side");
    await page.locator(".editor-group-container .view-lines").filter({ hasText: /\.loc\s+\d+\s+\d+/ }).first().waitFor();
    await until("instructions are marked", async () => (await bench.markedLines()) > 0);
    await bench.shot("triton-ptx");
  });

  await bench.step("the diagnostic goes when the mask is added and the file saved", async () => {
    await page.locator(".tab").filter({ hasText: "softmax.py" }).first().click();
    await bench.replaceText(facts.fixed, file);
    await page.locator(".monaco-editor .squiggly-error").first().waitFor({ state: "detached" });
    await bench.test("softmax_kernel").locator(".codicon-testing-passed-icon").waitFor();
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
