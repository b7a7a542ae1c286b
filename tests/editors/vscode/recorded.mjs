// A program with eight kernels that no gpuemu.toml mentions: run by its lens, then checked on its launches at each save.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix, python, kernels, bug}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix, settings: { "debug.inlineValues": "on" } });
const { page } = bench;
const file = path.join(facts.folder, "program.cu");
const [right, wrong] = facts.bug;
const before = fs.readFileSync(file, "utf8");
const after = before.replace(right, wrong);
const line = after.split("\n").findIndex((text) => text.includes(wrong)) + 1;

async function passed(...kernels) {
  for (const kernel of kernels) {
    await bench.test(kernel).locator(".codicon-testing-passed-icon").waitFor();
  }
}

try {
  await bench.open(facts.folder);

  await bench.step("the lens above main runs the program, and its launches are shown", async () => {
    await bench.file("program.cu");
    await bench.goTo(before.split("\n").findIndex((text) => text.startsWith("int main")) + 1);
    await page.locator(".codelens-decoration a").filter({ hasText: "Run under gpuemu" }).click();
    await page.locator(".notification-toast").filter({ hasText: "checked 8 of 8 launches" }).waitFor();
    await bench.command("Testing: Focus on Test Explorer View");
    await page.locator(".pane-header").filter({ hasText: "GPU Launches" }).click();
    const launches = page.locator(".pane").filter({ hasText: "GPU Launches" }).locator(".monaco-list-row");
    await launches.filter({ hasText: "saxpy" }).waitFor();
  });

  await bench.step("a recorded launch is debugged from its row, with the values that the program passed", async () => {
    const launch = page.locator(".pane").filter({ hasText: "GPU Launches" }).locator(".monaco-list-row").filter({ hasText: "saxpy" }).first();
    await launch.hover();
    await launch.locator(".codicon-debug-alt").click();
    const stopped = page.locator(".debug-top-stack-frame-column, .debug-top-stack-frame-line").first();
    await stopped.waitFor();
    await page.locator(".view-line").filter({ hasText: /saxpy.*n\s=\s\d+/ }).first().waitFor();
    await bench.shot("recorded-debug");
    await page.keyboard.press("Shift+F5");
    await stopped.waitFor({ state: "detached" });
    await bench.command("Testing: Focus on Test Explorer View");
  });

  await bench.step("all eight kernels are checked on the recorded launches", async () => {
    await bench.expand("program.cu");
    await passed(...facts.kernels);
    await bench.shot("recorded");
  });

  await bench.step("after a save, which checks all eight, a bug is on its line, and on no other", async () => {
    await bench.replaceText(after, file);
    const start = Date.now();
    await bench.goTo(line, after.split("\n")[line - 1].indexOf(wrong) + 1);
    await page.locator(".monaco-editor .squiggly-error").first().waitFor();
    console.log(`${((Date.now() - start) / 1000).toFixed(1)} s after the save`);
    await bench.test("saxpy").locator(".codicon-testing-failed-icon").waitFor();
    assert.deepEqual([...new Set(await bench.underlinedLines())], [line]);
    await passed(...facts.kernels.filter((kernel) => kernel !== "saxpy"));
    await bench.shot("recorded-bug");
  });

  await bench.step("Minimize finds a smaller launch", async () => {
    await bench.lightbulb("Minimize", bench.failure("minimal: ").filter({ hasText: "n=1" }).first());
  });

  await bench.step("Reproduce writes a script that fails with the recorded contents", async () => {
    await bench.file("program.cu");
    await bench.goTo(line, after.split("\n")[line - 1].indexOf(wrong) + 1);
    await bench.lightbulb("Reproduce", page.locator(".tab.active").filter({ hasText: ".py" }));
    const scripts = path.join(facts.folder, ".gpuemu/reproduce");
    const script = fs.readdirSync(scripts).find((name) => name.endsWith(".py"));
    const ran = spawnSync(facts.python, [path.join(scripts, script)], { encoding: "utf8" });
    assert.equal(ran.status, 1, ran.stdout + ran.stderr);
    assert.match(ran.stdout, /out-of-bounds/);
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
