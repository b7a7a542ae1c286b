// The extension's own tests, by mocha, inside the real extension host.
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { required, Workbench } from "./workbench.mjs";

const facts = JSON.parse(required("GPUEMU_TEST_FACTS")); // {folder, scratch, extension, suite}
const report = path.join(facts.scratch, "mocha.json");
// Only with the test driver does a built product run extension tests given in the URL, but it then hides notifications:
// hence a server of its own.
const bench = await Workbench.start({ scratch: facts.scratch, env: { CS_TEST_DRIVER: "1", GPUEMU_MOCHA_REPORT: report, GPUEMU_MOCHA_SUITE: facts.suite } });
try {
  const ended = new Promise((resolve) => bench.page.exposeFunction("codeAutomationExit", resolve));
  await bench.page.exposeFunction("codeAutomationLog", (type, parts) => console.log(`[${type}]`, ...parts));
  const remote = (folder) => `vscode-remote://127.0.0.1:${bench.port}${folder}`;
  const payload = [
    ["extensionDevelopmentPath", remote(facts.extension)],
    ["extensionTestsPath", remote(path.join(facts.extension, "dist/test/index.js"))],
  ];
  await bench.open(facts.folder, `&payload=${encodeURIComponent(JSON.stringify(payload))}`);
  const code = await ended;
  const results = JSON.parse(fs.readFileSync(report, "utf8"));
  for (const { title, error } of results) {
    console.log(error ? `FAILED: ${title}\n${error}` : `ok: ${title}`);
  }
  assert.equal(code, 0);
  assert(results.length > 0);
  console.log(`${results.length} passed`);
} finally {
  await bench.stop();
}
