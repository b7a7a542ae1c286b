// A buggy softmax in the workbench: diagnosed, inspected, minimized, reproduced, fixed.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix, bug_line, fixed}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix });
const { page } = bench;

try {
  await bench.open(facts.folder);

  await bench.step("the diagnostic is on the expected line", async () => {
    await bench.file("row_softmax_buggy.cu");
    await page.locator(".monaco-editor .squiggly-error").first().waitFor();
    assert.deepEqual([...new Set(await bench.underlinedLines())], [facts.bug_line + 1]);
    await page.locator(".codelens-decoration a").filter({ hasText: "FAILED" }).first().waitFor();
    await bench.shot("diagnostic");
  });

  await bench.step("the hover has registers and result", async () => {
    const name = page.locator(".view-line span").getByText("row_softmax", { exact: true }).first();
    await bench.hover(name, /registers/);
    const hover = page.locator(".monaco-hover:visible");
    await hover.filter({ hasText: /FAILED, \d+ of \d+ cases/ }).waitFor();
    await page.waitForTimeout(500); // it fades in
    await bench.shot("hover");
    await page.keyboard.press("Escape");
  });

  await bench.step("the Problems panel has its row", async () => {
    await page.keyboard.press("Control+Shift+M");
    await bench.rows(".markers-panel").filter({ hasText: /gpuemu.*numeric\/(nan|tolerance-exceeded)/ }).first().waitFor();
    await bench.shot("problems");
    await bench.command("View: Hide Panel");
  });

  await bench.step("one kernel runs from the Testing view, and gets its state", async () => {
    await bench.command("Testing: Focus on Test Explorer View");
    await bench.expand("gelu.cu");
    const row = bench.test("gelu");
    await row.hover();
    await row.locator(".codicon-testing-run-icon").first().click();
    await row.locator(".codicon-testing-passed-icon").waitFor();
    await bench.shot("one-test");
  });

  await bench.step("all kernels run, and each gets its state", async () => {
    for (const file of ["row_softmax_buggy.cu", "row_softmax.cu", "halo_buggy.cu"]) {
      await bench.expand(file);
    }
    await bench.command("Test: Run All Tests");
    await bench.test("row_softmax_buggy").locator(".codicon-testing-failed-icon").waitFor();
    await bench.test("row_softmax").locator(".codicon-testing-passed-icon").waitFor();
    await bench.test("halo_buggy").locator(".codicon-testing-failed-icon").waitFor();
    await bench.test("gelu").locator(".codicon-testing-passed-icon").waitFor();
    await until("header and badge count kernels", async () => {
      const { passed, total, badge } = await bench.counts();
      return passed === 2 && total === 4 && badge === 2;
    });
    assert(await bench.says("2 kernels fail"));
    await bench.shot("all-tests");
    const labels = await bench.testLabels();
    assert.equal(labels.length, 8);
    assert.equal(new Set(labels).size, 8, `${labels}`);
    assert(!(await page.locator(".codelens-decoration").allInnerTexts()).join().includes("before your edits"));
    const [bubble] = await until("the bubble of the failed test", async () => {
      const bubbles = await bench.bubbles();
      return bubbles.length > 0 && bubbles;
    });
    assert.match(bubble, /^y\[\d+, \d+\] = NaN != y\[\d+, \d+\] = [\d.e-]{1,13}$/); // at most 7 digits, and nothing elided
  });

  await bench.step("the failures view leads to the line", async () => {
    const shown = await bench.failure("cols=").allInnerTexts();
    assert(shown.length > 0 && shown.every((text) => /rows=\d+, cols=\d+\s*y\[/.test(text)), `${shown}`);
    const row = bench.failure("cols=").first();
    await row.click();
    await page.locator(".tab.active").filter({ hasText: "row_softmax_buggy.cu" }).waitFor();
    await until("the cursor is on the line", () => bench.says(`Ln ${facts.bug_line + 1},`));
    await bench.shot("failures");
  });

  await bench.step("the failure panel shows its picture", async () => {
    await bench.file("row_softmax_buggy.cu");
    await bench.goTo(facts.bug_line + 1, 5);
    const panel = page.frameLocator("iframe.webview").frameLocator("#active-frame");
    await bench.lightbulb("Show failure", panel.locator("canvas").nth(3));
    const colours = await panel.locator("canvas").evaluateAll((all) =>
      all.map((canvas) => {
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        return new Set(new Uint32Array(data.buffer)).size;
      }),
    );
    assert(colours.every((count) => count > 1), `an error map of one colour: ${colours}`);
    await panel.locator("canvas").nth(1).hover({ position: { x: 20, y: 20 } });
    await panel.locator(".readout").filter({ hasText: /expected .* actual/ }).waitFor();
    await bench.shot("panel");
  });

  await bench.step("Minimize from the lightbulb finds a smaller case", async () => {
    await bench.file("row_softmax_buggy.cu");
    await bench.goTo(facts.bug_line + 1, 5);
    await bench.lightbulb("Minimize", bench.failure("minimal: ").first());
    await bench.shot("minimized");
  });

  await bench.step("Reproduce from the lightbulb opens a script that fails as the kernel did", async () => {
    await bench.file("row_softmax_buggy.cu");
    await bench.goTo(facts.bug_line + 1, 5);
    await bench.lightbulb("Reproduce", page.locator(".tab.active").filter({ hasText: ".py" }));
    await bench.shot("reproduce");
    const scripts = path.join(facts.folder, ".gpuemu/reproduce");
    const script = fs.readdirSync(scripts).find((name) => name.endsWith(".py"));
    const ran = spawnSync(facts.python, [path.join(scripts, script)], { encoding: "utf8" });
    assert.equal(ran.status, 1, ran.stdout + ran.stderr);
    assert.match(ran.stdout, /NaN/i);
  });

  await bench.step("the PTX is shown next to the source, with the instructions of the line highlighted", async () => {
    await bench.file("row_softmax_buggy.cu");
    await bench.goTo(facts.bug_line + 1, 5);
    await bench.command("gpuemu: Show PTX to the Side");
    await page.locator(".editor-group-container .view-lines").filter({ hasText: /\.entry|\b(ld|st|mov|setp)\.\w/ }).first().waitFor();
    await until("instructions are marked", async () => (await bench.markedLines()) > 0);
    await bench.shot("ptx");
    const ptx = page.locator(".tab").filter({ hasText: ".ptx" });
    await ptx.click();
    await page.locator(".tab.active").filter({ hasText: ".ptx" }).waitFor();
    await until("PTX has colours", async () => (await bench.colours()) > 3);
    await page.locator(".editor-group-container.active .view-line").filter({ hasText: "ex2.approx" }).first().click();
    await until("the source line is marked", async () => (await bench.markedLines()) > 0);
    await bench.shot("ptx-back");
    await bench.command("gpuemu: Go to Source Line");
    await page.locator(".tab.active").filter({ hasText: "row_softmax_buggy.cu" }).waitFor();
    // Both loops have an exponential; the first one is right above the line of the bug.
    const lines = [facts.bug_line, facts.bug_line + 1];
    await until("the line is that of the instruction", async () => (await Promise.all(lines.map((line) => bench.says(`Ln ${line},`)))).some(Boolean));
  });

  await bench.step("the diagnostic goes when the bug is fixed and saved", async () => {
    await page.locator(".tab").filter({ hasText: "row_softmax_buggy.cu" }).click();
    await bench.replaceText(facts.fixed, facts.buggy);
    await until("the fixed file is on disk", () => fs.readFileSync(facts.buggy, "utf8").trim() === facts.fixed.trim());
    await page.keyboard.press("Control+Home");
    await page.locator(".codelens-decoration a").filter({ hasText: "passed" }).first().waitFor();
    await page.locator(".monaco-editor .squiggly-error").first().waitFor({ state: "detached" });
    await bench.test("row_softmax_buggy").locator(".codicon-testing-passed-icon").waitFor();
    await bench.failure("row_softmax_buggy").first().waitFor({ state: "detached" });
    await bench.shot("fixed");
    await page.keyboard.press("Control+Shift+M");
    await bench.rows(".markers-panel").filter({ hasText: "halo_buggy.cu" }).first().waitFor();
    assert.equal(await bench.rows(".markers-panel").filter({ hasText: "row_softmax_buggy.cu" }).count(), 0);
  });

  await bench.step("user and workspace settings are unchanged", async () => {
    assert.deepEqual(bench.settings(), bench.settingsBefore);
    assert(!fs.existsSync(path.join(facts.folder, ".vscode")));
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
