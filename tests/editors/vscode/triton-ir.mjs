// TTIR and TTGIR of a Triton kernel next to its source, in colours, with the operations of the current line highlighted.
import { required, until, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, vsix, line}
const bench = await Workbench.start({ scratch: facts.scratch, vsix: facts.vsix });
const { page } = bench;
const STORE = facts.line + 1;

try {
  await bench.open(facts.folder);
  await bench.file("softmax.py");
  await page.locator(".monaco-editor .squiggly-error").first().waitFor();

  for (const [form, title, text] of [
    ["ttir", "Show Triton IR (TTIR) to the Side", "tt.store"],
    ["ttgir", "Show Triton GPU IR (TTGIR) to the Side", "#blocked"],
  ]) {
    await bench.step(`${form} is shown next to the source, and leads back to it`, async () => {
      await bench.file("softmax.py");
      await bench.goTo(STORE, 5);
      await bench.command(`gpuemu: ${title}`);
      const tab = page.locator(".tab").filter({ hasText: `.${form}` });
      await tab.waitFor();
      await page.locator(".editor-group-container .view-lines").filter({ hasText: text }).last().waitFor();
      await until("operations are marked", async () => (await bench.markedLines()) > 0);
      await bench.shot(`triton-${form}`, 620); // the locations below are paths of this machine
      await tab.click();
      await page.locator(".tab.active").filter({ hasText: `.${form}` }).waitFor();
      await until("the text has colours", async () => (await bench.colours()) > 4);
      await page.locator(".editor-group-container.active .view-line").filter({ hasText: /tt\.store/ }).first().click();
      await bench.command("gpuemu: Go to Source Line");
      await page.locator(".tab.active").filter({ hasText: "softmax.py" }).waitFor();
      await until("the line is that of the operation", () => bench.says(`Ln ${STORE},`));
    });
  }

  console.log("scenario passed");
} finally {
  await bench.stop();
}
