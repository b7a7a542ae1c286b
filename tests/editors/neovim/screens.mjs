// Recordings of a terminal, drawn by xterm.js: a screenshot and the text of each.
import assert from "node:assert/strict";
import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const { recordings, rows, columns } = JSON.parse(process.env.GPUEMU_TEST_FACTS); // {recordings: {name: file}, rows, columns}
const editors = process.env.GPUEMU_EDITORS_DIR;
const xterm = path.join(editors, "code-server/node_modules/code-server/lib/vscode/node_modules/@xterm/xterm");
const { chromium } = createRequire(path.join(editors, "tools/"))("playwright-core");

const browser = await chromium.launch({
  executablePath: process.env.GPUEMU_CHROMIUM,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"],
  env: { ...process.env, TMPDIR: "/tmp" }, // Chromium makes a socket there, whose path may have 107 bytes (unix(7))
});
try {
  const texts = {};
  for (const [name, file] of Object.entries(recordings)) {
    const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
    await page.setContent('<body style="margin: 0; background: #14161b"><div id="screen" style="display: inline-block"></div></body>');
    await page.addStyleTag({ path: path.join(xterm, "css/xterm.css") });
    await page.addScriptTag({ path: path.join(xterm, "lib/xterm.js") });
    texts[name] = await page.evaluate(
      async ({ recording, rows, columns }) => {
        const terminal = new Terminal({ rows, cols: columns, fontSize: 15, fontFamily: "DejaVu Sans Mono", cursorInactiveStyle: "none", allowProposedApi: true });
        terminal.open(document.getElementById("screen"));
        const bytes = Uint8Array.from(atob(recording), (each) => each.charCodeAt(0));
        await new Promise((resolve) => terminal.write(bytes, resolve));
        await new Promise((resolve) => setTimeout(resolve, 300)); // it draws in the next frame
        const { active } = terminal.buffer;
        return Array.from({ length: rows }, (_, row) => active.getLine(active.viewportY + row).translateToString(true)).join("\n");
      },
      { recording: fs.readFileSync(file).toString("base64"), rows, columns },
    );
    await page.locator(".xterm-screen").screenshot({ path: path.join(process.env.GPUEMU_SHOTS, `${name}.png`) });
    await page.close();
  }
  assert(Object.keys(texts).length > 0);
  console.log(JSON.stringify(texts));
} finally {
  await browser.close();
}
