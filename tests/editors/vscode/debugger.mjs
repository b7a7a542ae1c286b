// A debug session in the workbench: from the code lens to the stop at the finding, back, and to who wrote an element.
import assert from "node:assert/strict";
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix, bug_line}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix, settings: { "debug.inlineValues": "on" } });
const { page } = bench;
const stopped = page.locator(".debug-top-stack-frame-column, .debug-top-stack-frame-line").first();
const variables = page.locator(".debug-variables .monaco-list-row");

async function line() {
  return Number((await page.locator(".statusbar").innerText()).replaceAll("\u00a0", " ").match(/Ln (\d+),/)?.[1]);
}

/** A step of the loop on the line changes its variable. */
async function moved(action) {
  const before = await values();
  await action();
  await until("other values", async () => {
    const now = await values();
    return now.includes("Locals") && now !== before;
  });
}

async function values() {
  return (await variables.allInnerTexts()).join(" ");
}

try {
  await bench.open(facts.folder);

  await bench.step("the code lens starts a session, which stops at the finding with its text", async () => {
    await bench.file("row_softmax_buggy.cu");
    await page.locator(".codelens-decoration a").filter({ hasText: "Debug the failing thread" }).first().click();
    await page.locator(".exception-widget").filter({ hasText: /expected/ }).waitFor();
    await stopped.waitFor();
    assert.equal(await line(), facts.bug_line + 1);
    await bench.command("View: Show Run and Debug");
    await variables.filter({ hasText: "Locals" }).first().waitFor();
    await bench.shot("debugger-stopped");
  });

  await bench.step("Step Back and its key go to earlier lines, with their values", async () => {
    await moved(() => page.keyboard.press("Alt+F10"));
    const toolbar = page.locator(".debug-toolbar");
    await moved(() => toolbar.locator(".codicon-debug-step-back").click());
    await bench.shot("debugger-back");
  });

  await bench.step("the console says who wrote an element", async () => {
    const input = page.locator(".repl-input-wrapper .monaco-editor");
    await input.click();
    await page.locator(".repl-input-wrapper .monaco-editor.focused").waitFor();
    await page.keyboard.type("lanes threadIdx.x");
    await page.keyboard.press("Enter");
    await page.locator(".repl .monaco-list-row").filter({ hasText: /threadIdx\.x = 0\.\.31 step 1/ }).waitFor();
    await bench.shot("debugger-console");
  });

  await bench.step("another thread is looked at", async () => {
    await bench.command("gpuemu: Look at Another Thread");
    const input = page.locator(".quick-input-widget input");
    await input.fill("1");
    await page.keyboard.press("Enter");
    await page.locator(".debug-call-stack .monaco-list-row").filter({ hasText: /\(1, 0, 0\) of block/ }).first().waitFor();
    await bench.shot("debugger-thread");
  });

  await bench.step("it ends", async () => {
    await page.keyboard.press("Shift+F5");
    await stopped.waitFor({ state: "detached" });
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
