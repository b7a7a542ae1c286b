// No server installed: the user is warned that nothing is checked, and offered an installation.
import assert from "node:assert/strict";
import { required, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix });
const { page } = bench;
try {
  await bench.open(facts.folder);
  await bench.step("a message offers to install the server", async () => {
    const toast = page.locator(".notification-toast").filter({ hasText: "gpuemu-lsp was not found" });
    await toast.waitFor();
    await toast.getByRole("button", { name: "Install", exact: true }).waitFor();
    await bench.shot("missing");
  });
  await bench.step("the status bar shows that nothing is checked", async () => {
    const status = page.locator(".statusbar-item").filter({ hasText: "gpuemu" });
    assert.match(await status.getAttribute("aria-label"), /nothing is checked/);
  });
  await bench.step("the button starts an installation in a terminal", async () => {
    await page.getByRole("button", { name: "Install", exact: true }).click();
    await page.locator(".terminal-outer-container, .integrated-terminal").first().waitFor();
    await bench.shot("installing");
  });
  console.log("scenario passed");
} finally {
  await bench.stop();
}
