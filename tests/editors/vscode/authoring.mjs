// Writing kernels: errors of references and headers, gpuemu.toml, registration, a pause.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix, bug_line, fixed}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix });
const { page } = bench;
const inFolder = (name) => path.join(facts.folder, name);
const read = (name) => fs.readFileSync(inFolder(name), "utf8");
const lineOf = (text, part) => text.split("\n").findIndex((line) => line.includes(part)) + 1;

const NEW = `extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
`;

try {
  fs.writeFileSync(inFolder("twice.cu"), NEW);
  fs.writeFileSync(inFolder("ops/broken.cuh"), "__device__ int broken() { return nothing; }\n");
  await bench.open(facts.folder);

  await bench.step("ten saves show the same case", async () => {
    await bench.file("row_softmax_buggy.cu");
    await page.keyboard.press("Control+Shift+M");
    const row = bench.rows(".markers-panel").filter({ hasText: /gpuemu.*numeric/ }).first();
    await row.waitFor();
    // Until the check ends, the first error that it has found is shown.
    await page.locator(".codelens-decoration a").filter({ hasText: "FAILED" }).first().waitFor();
    const seen = new Set([await row.innerText()]);
    for (let number = 0; number < 10; number++) {
      await bench.goTo(9);
      await page.keyboard.type(`// save ${number}\n`);
      await page.keyboard.press("Control+s");
      await page.waitForTimeout(400); // until the edit is seen
      await page.locator(".codelens-decoration a").filter({ hasText: "before your edits" }).waitFor({ state: "detached" });
      seen.add(
        await until("the result of this text", async () => {
          const text = await row.innerText();
          return !text.includes("the text has changed") && text;
        }),
      );
    }
    assert.equal(seen.size, 1, [...seen].join("\n"));
    await bench.command("View: Hide Panel");
  });

  await bench.step("a .ptx is checked, and its registers have hovers", async () => {
    fs.writeFileSync(inFolder("scale.ptx"), facts.ptx);
    await bench.file("scale.ptx");
    await bench.goTo(lineOf(facts.ptx, "st.global.f32"));
    // The store at the same index is a consequence of the load.
    const line = lineOf(facts.ptx, "ld.global.f32");
    await until("the load is underlined", async () => (await bench.underlinedLines()).includes(line));
    const store = page.locator(".view-line").filter({ hasText: "st.global.f32" });
    await bench.hover(store.locator("span").filter({ hasText: /^%f2$/ }).last(), "add.f32 %f2, %f1, %f1;");
    await bench.shot("ptx");
    await page.keyboard.press("Escape");
  });

  await bench.step("a reference that raises is marked on its own line", async () => {
    const name = "reference/rows.py";
    const before = read(name);
    const broken = before.replace(/(def softmax\(.*\n)/, "$1    raise ValueError('not written yet')\n");
    assert.notEqual(broken, before);
    await bench.file("rows.py");
    await bench.replaceText(broken, inFolder(name));
    await page.keyboard.press("Control+Home");
    const line = lineOf(broken, "not written yet");
    await bench.goTo(line);
    await until("the line is underlined", async () => (await bench.underlinedLines()).includes(line));
    assert.deepEqual([...new Set(await bench.underlinedLines())], [line]);
    await bench.shot("reference-error");
    await bench.replaceText(before, inFolder(name));
    await page.locator(".monaco-editor .squiggly-error").first().waitFor({ state: "detached" });
  });

  await bench.step("an error in a header is marked on its #include", async () => {
    const before = read("ops/gelu.cu");
    await bench.file("gelu.cu");
    const text = `#include "broken.cuh"\n${before}`;
    await bench.replaceText(text, inFolder("ops/gelu.cu"));
    await page.keyboard.press("Control+Home");
    await until("the line is underlined", async () => (await bench.underlinedLines()).includes(1));
    assert.deepEqual([...new Set(await bench.underlinedLines())], [1]);
    await bench.shot("include-error");
    await bench.replaceText(before, inFolder("ops/gelu.cu"));
    await page.locator(".monaco-editor .squiggly-error").first().waitFor({ state: "detached" });
  });

  await bench.step("gpuemu.toml has colours, and Fix All corrects its typos", async () => {
    const before = read("gpuemu.toml");
    await bench.file("gpuemu.toml");
    await until("TOML has colours", async () => (await bench.colours()) > 3);
    const typos = before.replace("source = ", "sorce = ").replace("[kernels.launch]", "[kernels.lanuch]");
    fs.writeFileSync(inFolder("gpuemu.toml"), typos);
    await page.locator(".monaco-editor .squiggly-error, .monaco-editor .squiggly-warning").first().waitFor();
    await bench.shot("toml");
    await until("the typos are corrected", async () => {
      await bench.command("Fix All");
      await page.keyboard.press("Control+s");
      return read("gpuemu.toml") === before;
    });
    await bench.command("View: Close Editor"); // registration writes to the text of an open one
  });

  await bench.step("an unregistered kernel is registered by its lens", async () => {
    await bench.file("twice.cu");
    const lens = page.locator(".codelens-decoration a").filter({ hasText: "Register kernel" }).first();
    await lens.waitFor();
    await bench.shot("register");
    await lens.click();
    await page.locator(".tab.active").filter({ hasText: "ref_twice.py" }).waitFor();
    assert.match(read("gpuemu.toml"), /name = "twice"/);
    assert.match(read("ref_twice.py"), /np\.zeros/);
    await bench.shot("registered");
    await bench.file("twice.cu");
    await page.locator(".monaco-editor .squiggly-error").first().waitFor();
    await lens.waitFor({ state: "detached" });
  });

  await bench.step("a pause keeps the diagnostics, and its end checks what has changed", async () => {
    await bench.file("row_softmax_buggy.cu");
    await page.locator(".monaco-editor .squiggly-error").first().waitFor();
    await bench.command("gpuemu: Pause Checks");
    await until("the status says so", () => bench.says("gpuemu: paused"));
    await bench.replaceText(facts.fixed, facts.buggy);
    await page.keyboard.press("Control+Home");
    await page.locator(".codelens-decoration a").filter({ hasText: "before your edits" }).first().waitFor();
    await page.waitForTimeout(1500); // nothing may happen
    await bench.shot("paused");
    assert(await bench.says("gpuemu: paused"));
    assert.equal(await page.locator(".codelens-decoration a").filter({ hasText: "FAILED" }).count(), 1);
    await bench.command("gpuemu: Resume Checks");
    await page.locator(".codelens-decoration a").filter({ hasText: "passed" }).first().waitFor();
    await until("the status no longer says so", async () => !(await bench.says("paused")));
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
