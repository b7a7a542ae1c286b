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

/** The rows of a view of the side bar, which is opened. */
async function pane(title) {
  const header = page.locator(".pane-header").filter({ hasText: title });
  if ((await header.getAttribute("aria-expanded")) === "false") {
    await header.click();
  }
  return page.locator(".pane").filter({ has: header }).locator(".monaco-list-row");
}

async function watch(expression) {
  const header = page.locator(".pane-header").filter({ hasText: "Watch" });
  await header.hover();
  await header.locator(".codicon-watch-expressions-add").click();
  await page.locator(".debug-watch input").fill(expression);
  await page.keyboard.press("Enter");
}

/** The moment that the session looks at, by the watch expression. */
async function time() {
  const row = page.locator(".debug-watch .monaco-list-row").filter({ hasText: /^\s*time/ }).first();
  return until("the time", async () => Number((await row.innerText()).match(/time\D*(\d+)/)?.[1]));
}

/** Move, and return the moment that is reached. */
async function moved(action) {
  const before = await time();
  await action();
  return until("another moment", async () => {
    const now = await time();
    return now !== before && now;
  });
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

  await bench.step("variables, values at the ends of lines and the lanes panel show the moment", async () => {
    const locals = variables.filter({ hasText: "Locals" }).first();
    if ((await locals.getAttribute("aria-expanded")) === "false") {
      await locals.locator(".monaco-tl-twistie").click();
    }
    await variables.filter({ hasText: /cols\s*=\s*\d+/ }).first().waitFor();
    await page.locator(".view-line").filter({ hasText: /cols\s=\s\d+/ }).first().waitFor();
    const lanes = await pane("Lanes");
    await lanes.filter({ hasText: /^\s*cols\s*all\s\d+/ }).first().waitFor();
    await lanes.filter({ hasText: /^\s*r\s*0/ }).first().waitFor();
    await bench.shot("debugger-lanes");
    // The variables need the space.
    for (const title of ["Lanes", "Breakpoints", "Call Stack"]) {
      await page.locator(".pane-header").filter({ hasText: title }).click();
    }
  });

  await bench.step("ten steps back, by the key and by the button, go to earlier moments", async () => {
    await watch("time");
    const moments = [await time()];
    for (let step = 0; step < 10; step++) {
      const back = () => (step % 2 ? page.locator(".debug-toolbar .codicon-debug-step-back").click() : page.keyboard.press("Alt+F10"));
      moments.push(await moved(back));
    }
    assert.deepEqual(moments, moments.toSorted((one, other) => other - one));
    assert.equal(new Set(moments).size, 11);
    await bench.shot("debugger-back");
  });

  await bench.step("Reverse stops at a breakpoint with a condition", async () => {
    await moved(() => page.keyboard.press("F5")); // to the finding
    assert.equal(await line(), facts.bug_line + 1);
    await bench.goTo(facts.bug_line);
    await bench.command("Debug: Add Conditional Breakpoint");
    await page.locator(".breakpoint-widget .monaco-editor.focused").waitFor();
    await page.keyboard.type("j == 1");
    await page.keyboard.press("Enter");
    await page.locator(".codicon-debug-breakpoint-conditional").first().waitFor();
    await moved(() => page.keyboard.press("Alt+F5"));
    await until("the line", async () => (await line()) === facts.bug_line);
    await page.locator(".view-line").filter({ hasText: /j\s=\s1,/ }).first().waitFor();
    await page.keyboard.press("F9"); // the cursor is at its line
    await page.locator(".codicon-debug-breakpoint-conditional").first().waitFor({ state: "detached" });
  });

  await bench.step("Reverse stops where a variable was written", async () => {
    await moved(() => page.keyboard.press("F5"));
    const sum = variables.filter({ hasText: /^\s*sum\s*=/ }).first();
    await variables.first().hover();
    await until("the variable", async () => {
      await page.mouse.wheel(0, 44);
      return sum.isVisible();
    });
    await bench.choose(sum, "Break on Value Change");
    // Its icon changes once the adapter has it: Reverse would not stop there before. The rules fill the list above it.
    const set = page.locator(".debug-breakpoints .codicon-debug-breakpoint-data").first();
    await (await pane("Breakpoints")).first().hover();
    await until("the adapter has the breakpoint", async () => {
      await page.mouse.wheel(0, 440);
      return set.isVisible();
    });
    await moved(() => page.keyboard.press("Alt+F5"));
    await until("the line", async () => (await line()) === facts.bug_line);
    await pane("Call Stack");
    await page.locator(".pane-header").filter({ hasText: /Call Stack\s*data breakpoint/i }).waitFor();
    await bench.shot("debugger-data");
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
    await (await pane("Call Stack")).filter({ hasText: /\(1, 0, 0\) of block/ }).first().waitFor();
    await bench.shot("debugger-thread");
  });

  await bench.step("it ends", async () => {
    await page.keyboard.press("Shift+F5");
    await stopped.waitFor({ state: "detached" });
  });

  await bench.step("the test explorer's Debug starts a session, too", async () => {
    await bench.command("Testing: Focus on Test Explorer View");
    await bench.expand("row_softmax_buggy.cu");
    const row = bench.test("row_softmax_buggy");
    await row.hover();
    await row.locator(".codicon-testing-debug-icon").click();
    await page.locator(".exception-widget").filter({ hasText: /expected/ }).waitFor();
    await stopped.waitFor();
    assert.equal(await line(), facts.bug_line + 1);
    await bench.shot("debugger-tests");
    await page.keyboard.press("Shift+F5");
    await stopped.waitFor({ state: "detached" });
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
