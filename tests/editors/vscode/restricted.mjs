// Restricted Mode: kernels of a folder that is not trusted are listed, and nothing of it is imported until it is trusted.
import assert from "node:assert/strict";
import fs from "node:fs";
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix, imported}
const settings = { "security.workspace.trust.enabled": true, "security.workspace.trust.startupPrompt": "never" };
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix, settings });
const { page } = bench;
const untouched = () => assert(!fs.existsSync(facts.imported), "a module of the folder was imported");

try {
  await bench.open(facts.folder);

  await bench.step("the status says that nothing runs, the lens that the kernel did not", async () => {
    for (const name of ["strings.py", "pair.py", "triton_kernels.py"]) {
      await bench.file(name);
      await page.locator(".codelens-decoration a").filter({ hasText: /gpuemu: not run/ }).first().waitFor();
    }
    await until("the status says so", () => bench.says("gpuemu: restricted"));
    untouched();
  });

  await bench.step("commands execute nothing of the folder", async () => {
    for (const title of ["Check This File", "Fuzz This File (Deep Check)", "Check All Kernels", "Debug Failure"]) {
      await bench.command(`gpuemu: ${title}`);
      await page.waitForTimeout(1000); // nothing may happen
    }
    await bench.command("gpuemu: Show PTX to the Side");
    await page.locator(".notification-toast").filter({ hasText: /not trusted/ }).waitFor();
    await bench.shot("restricted");
    assert.equal(await page.locator(".debug-toolbar:visible").count(), 0);
    untouched();
  });

  await bench.step("once the folder is trusted its kernels run", async () => {
    await bench.command("Workspaces: Manage Workspace Trust");
    await page.locator(".workspace-trust-editor .monaco-button").filter({ hasText: /^Trust$/ }).first().click();
    await until("the folder is trusted", async () => !(await bench.says("gpuemu: restricted")));
    await bench.file("triton_kernels.py");
    await page.locator(".monaco-editor .squiggly-error").first().waitFor();
    assert(fs.existsSync(facts.imported));
  });

  console.log("scenario passed");
} finally {
  await bench.stop();
}
