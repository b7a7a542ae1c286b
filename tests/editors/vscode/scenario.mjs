// A buggy softmax in the real workbench: seen, understood, reproduced, made small, mended.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix, bug_line, mended}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix });
const { page } = bench;

try {
  await bench.open(facts.folder);

  await bench.step("the squiggle is on the expected line", async () => {
    await bench.file("row_softmax_buggy.cu");
    await page.locator(".monaco-editor .squiggly-error").first().waitFor();
    assert.deepEqual([...new Set(await bench.squiggledLines())], [facts.bug_line + 1]);
    await page.locator(".codelens-decoration a").filter({ hasText: "FAILED" }).first().waitFor();
    await bench.shot("squiggle");
  });

  await bench.step("the hover has registers and verdict", async () => {
    const name = page.locator(".view-line span").getByText("row_softmax", { exact: true }).first();
    await name.hover();
    const hover = page.locator(".monaco-hover:visible");
    await hover.filter({ hasText: /registers/ }).waitFor();
    await hover.filter({ hasText: /FAILED, \d+ of \d+ cases/ }).waitFor();
    await bench.shot("hover");
    await page.keyboard.press("Escape");
  });

  await bench.step("the Problems panel has its row", async () => {
    await page.keyboard.press("Control+Shift+M");
    await bench.rows(".markers-panel").filter({ hasText: /gpuemu.*numeric\/(nan|tolerance-exceeded)/ }).first().waitFor();
    await bench.shot("problems");
    await page.keyboard.press("Control+Shift+M");
  });

  await bench.step("the squiggle goes when the bug is mended and saved", async () => {
    await page.locator(".tab").filter({ hasText: "row_softmax_buggy.cu" }).click();
    await bench.replaceText(facts.mended);
    await until("the mended file is on disk", () => fs.readFileSync(facts.buggy, "utf8").trim() === facts.mended.trim());
    await page.locator(".codelens-decoration a").filter({ hasText: "passed" }).first().waitFor();
    await page.locator(".monaco-editor .squiggly-error").waitFor({ state: "detached" });
    await page.keyboard.press("Control+Shift+M");
    await page.getByText("No problems have been detected").first().waitFor();
    await bench.shot("mended");
  });

  await bench.step("nobody's settings were touched", async () => {
    assert.deepEqual(bench.settings(), bench.settingsBefore);
    assert(!fs.existsSync(path.join(facts.folder, ".vscode")));
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
