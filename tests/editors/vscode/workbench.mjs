// VS Code's workbench, code-server in a headless Chromium, and the actions of a user as functions.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import { createRequire } from "node:module";
import net from "node:net";
import path from "node:path";

export const editors = required("GPUEMU_EDITORS_DIR");
const entry = path.join(editors, "code-server/node_modules/code-server/out/node/entry.js");
const { chromium } = createRequire(path.join(editors, "tools/"))("playwright-core");
const PATIENCE = 120_000; // of every wait; generous, for slow machines
const ATTEMPT = 15_000; // of a wait that is repeated until PATIENCE ends

export function required(name) {
  const value = process.env[name];
  assert(value, `${name} is not set`);
  return value;
}

const SETTINGS = {
  "workbench.startupEditor": "none",
  "telemetry.telemetryLevel": "off",
  "extensions.autoUpdate": "off",
  "extensions.autoCheckUpdates": false,
  "chat.disableAIFeatures": true,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "testing.automaticallyOpenTestResults": "neverOpen",
  "editor.accessibilitySupport": "off",
  "editor.minimap.enabled": false,
  "window.commandCenter": false,
  "workbench.layoutControl.enabled": false,
};

export class Workbench {
  /** Start a server with folders of its own and the packaged extension, and a browser with an empty page. */
  static async start({ scratch, vsix, settings = {}, env = {} }) {
    const bench = new Workbench();
    bench.port = await freePort();
    const [user, extensions] = [path.join(scratch, "user"), path.join(scratch, "extensions")];
    fs.mkdirSync(path.join(user, "User"), { recursive: true });
    bench.settingsBefore = { ...SETTINGS, ...settings };
    bench.settingsFile = path.join(user, "User/settings.json");
    fs.writeFileSync(bench.settingsFile, JSON.stringify(bench.settingsBefore));
    const folders = ["--config", path.join(scratch, "config.yaml"), "--user-data-dir", user, "--extensions-dir", extensions];
    const environment = { ...process.env, ...env };
    if (vsix) {
      const done = spawnSync(process.execPath, [entry, ...folders, "--install-extension", vsix], { env: environment, encoding: "utf8" });
      assert.equal(done.status, 0, done.stdout + done.stderr);
    }
    const log = fs.openSync(path.join(scratch, "code-server.log"), "a");
    const flags = ["--auth", "none", "--bind-addr", `127.0.0.1:${bench.port}`, "--disable-telemetry", "--disable-update-check"];
    flags.push("--disable-getting-started-override");
    if (!settings["security.workspace.trust.enabled"]) {
      flags.push("--disable-workspace-trust");
    }
    bench.server = spawn(process.execPath, [entry, ...folders, ...flags], { env: environment, stdio: ["ignore", log, log], detached: true });
    await until("code-server answers", async () => (await fetch(`http://127.0.0.1:${bench.port}/healthz`)).ok);
    const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"];
    args.push("--disable-component-update", "--disable-sync");
    bench.browser = await chromium.launch({
      executablePath: required("GPUEMU_CHROMIUM"),
      headless: true,
      args,
      // Chromium makes a socket there, whose path may have 107 bytes (unix(7)).
      env: { ...process.env, TMPDIR: "/tmp" },
    });
    bench.page = await bench.browser.newPage({
      viewport: { width: 1400, height: 900 },
      permissions: ["clipboard-read", "clipboard-write"],
    });
    bench.page.setDefaultTimeout(PATIENCE);
    return bench;
  }

  async open(folder, parameters = "") {
    await this.page.goto(`http://127.0.0.1:${this.port}/?folder=${encodeURIComponent(folder)}${parameters}`);
    await this.page.locator(".monaco-workbench").waitFor();
  }

  async stop() {
    await this.browser?.close();
    try {
      process.kill(-this.server.pid, "SIGKILL"); // with its extension hosts, which would outlive it for hours
    } catch (error) {
      assert.equal(error.code, "ESRCH");
    }
  }

  /** The user's settings on disk. */
  settings() {
    return JSON.parse(fs.readFileSync(this.settingsFile, "utf8"));
  }

  // ---- user actions ----------------------------------------------------------------------------------------------------

  /**
   * Type into the quick input that keys open, and accept the row of a label if one is given.
   * Once more if it closes before that, as it does when the extension host restarts or a dialog takes the focus.
   * Each attempt opens it again: while it is open, Go to File searches the list of files that it read at first, in
   * which a new file may be missing.
   */
  async quickInput(keys, text, label) {
    const input = this.page.locator(".quick-input-widget input");
    const row = this.page.locator(".quick-input-list .monaco-list-row").filter({ hasText: label ?? "" }).first();
    await until(`the quick input takes "${text}"`, async () => {
      if (!(await input.isVisible())) {
        await this.page.keyboard.press(keys);
      }
      await input.fill(text, { timeout: ATTEMPT });
      if (label) {
        try {
          await row.waitFor({ timeout: ATTEMPT });
        } catch (error) {
          await this.page.keyboard.press("Escape");
          throw error;
        }
      }
      await this.page.waitForTimeout(300); // the list is filtered once more after it shows
      return input.isVisible();
    });
    await this.page.keyboard.press("Enter");
  }

  /** Run a command by its title. */
  async command(title) {
    await this.quickInput("F1", `>${title}`, title);
  }

  /** Open a file by its name, as Go to File does. */
  async file(name) {
    const tab = this.page.locator(".tab.active").filter({ hasText: name });
    await until(`${name} is open`, async () => {
      await this.quickInput("Control+p", name, name);
      await tab.waitFor({ timeout: ATTEMPT });
      return true;
    });
  }

  /** Put the cursor at a 1-based line and column. */
  async goTo(line, column = 1) {
    await until(`the cursor is at line ${line}`, async () => {
      await this.quickInput("Control+g", `:${line}:${column}`);
      // Again if the key was lost.
      await this.page.locator(".quick-input-widget input").waitFor({ state: "hidden", timeout: ATTEMPT });
      return true;
    });
  }

  /** Replace the text of the active editor, which shows `file`, and save it; again if the keys were lost. */
  async replaceText(text, file) {
    await this.page.evaluate((what) => navigator.clipboard.writeText(what), text);
    await until(`${path.basename(file)} is on disk`, async () => {
      await this.page.locator(".editor-group-container.active .view-lines").first().click();
      await this.page.keyboard.press("Control+a");
      await this.page.keyboard.press("Control+v"); // typed text would be auto-indented
      await this.page.keyboard.press("Control+s");
      await this.page.waitForTimeout(500);
      return fs.readFileSync(file, "utf8").trim() === text.trim();
    });
  }

  /** Choose an entry of the lightbulb's menu at the cursor; again if its result does not come, as the menu may be replaced. */
  async lightbulb(title, result) {
    for (let attempt = 0; ; attempt++) {
      await this.page.keyboard.press("Control+.");
      const row = this.page.locator(".action-widget .monaco-list-row").filter({ hasText: title }).first();
      await row.waitFor();
      await row.click();
      try {
        await result.waitFor({ timeout: PATIENCE / 2 });
        return;
      } catch (error) {
        if (attempt === 2) {
          throw error;
        }
      }
    }
  }

  /** Choose an item of the context menu of a row; again while the menu stays, as it does at clicks just after it opens. */
  async choose(row, label) {
    const item = this.page.locator(".monaco-menu .action-label").filter({ hasText: label }).first();
    await until(`"${label}" is chosen`, async () => {
      if (!(await item.isVisible())) {
        await row.click({ button: "right", timeout: ATTEMPT });
      }
      await item.click({ timeout: ATTEMPT });
      await item.waitFor({ state: "hidden", timeout: ATTEMPT });
      return true;
    });
  }

  /** Return the 1-based numbers of the lines with an error underline. */
  async underlinedLines() {
    return this.page.evaluate(() => {
      const middle = (box) => box.top + box.height / 2;
      const numbers = [...document.querySelectorAll(".monaco-editor .line-numbers")];
      return [...document.querySelectorAll(".monaco-editor .squiggly-error")].map((mark) => {
        const at = middle(mark.getBoundingClientRect());
        const on = numbers.find((each) => {
          const box = each.getBoundingClientRect();
          return box.top <= at && at <= box.bottom;
        });
        return Number(on?.textContent);
      });
    });
  }

  /** Run a named step; take a screenshot if it fails. */
  async step(name, action) {
    const start = Date.now();
    try {
      await action();
      console.log(`ok: ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
    } catch (error) {
      await this.shot(`failed-${name.replaceAll(/\W+/g, "-")}`);
      throw new Error(`step failed: ${name}`, { cause: error });
    }
  }

  /** Show the hover of a word that has a text. An update of the editor closes hovers, and the mouse then has to move. */
  async hover(word, text) {
    const shown = this.page.locator(".monaco-hover:visible").filter({ hasText: text }).first();
    await until(`the hover with ${text}`, async () => {
      await this.page.mouse.move(0, 0);
      await word.hover();
      return shown.waitFor({ timeout: PATIENCE / 6 }).then(() => true, () => false);
    });
  }

  rows(view) {
    return this.page.locator(`${view} .monaco-list-row`);
  }

  /** The row of a test in the Testing view, by its whole label. */
  test(label) {
    const exactly = new RegExp(`^\\s*${label.replaceAll(".", "\\.")}\\s*(float\\d+[,: ]*)*([\\d.]+(ms|s|m))?$`); // types and a duration follow
    return this.rows(".test-explorer").filter({ has: this.page.locator(".label").filter({ hasText: exactly }) }).first();
  }

  /** Open a row of the Testing view. */
  async expand(label) {
    const row = this.test(label);
    await row.waitFor();
    if ((await row.getAttribute("aria-expanded")) === "false") {
      await row.locator(".monaco-tl-twistie").click();
    }
  }

  /** The numbers that the Testing view and its icon show: passed and reported tests of the last run, failed tests. */
  async counts() {
    const header = (await this.page.locator(".test-explorer-header, .result-summary").first().innerText()).match(/(\d+)\/(\d+)/);
    const badges = await this.page.locator(".activitybar .badge[aria-label^='Testing'] .badge-content").allInnerTexts();
    return { passed: Number(header?.[1]), total: Number(header?.[2]), badge: Number(badges[0] || 0) };
  }

  /** The labels of all rows of the Testing view, without durations. */
  async testLabels() {
    return this.rows(".test-explorer").locator(".label").allInnerTexts();
  }

  /** The text of each red bubble of a failed test. */
  async bubbles() {
    return (await this.page.locator(".test-error-content-widget .content").allTextContents()).map((text) => text.replaceAll("\u00a0", " "));
  }

  /** The number of colours of the text in the active editor. */
  async colours() {
    return this.page.evaluate(() => {
      const spans = document.querySelectorAll(".editor-group-container.active .view-line span span");
      return new Set([...spans].filter((each) => each.textContent.trim()).map((each) => getComputedStyle(each).color)).size;
    });
  }

  /** Number of lines of an editor that are highlighted for the current source line. */
  async markedLines() {
    return this.page.locator(".monaco-editor .view-overlays [class*='ced-']").count();
  }

  /** The rows of the failures view that contain a text. */
  failure(text) {
    return this.page.locator(".pane").filter({ hasText: "GPU Kernel Failures" }).locator(".monaco-list-row").filter({ hasText: text });
  }

  /** Whether the status bar contains a text. */
  async says(text) {
    return (await this.page.locator(".statusbar").innerText()).replaceAll("\u00a0", " ").includes(text);
  }

  /** Take a screenshot, of the upper part of the window if a height is given. */
  async shot(name, height) {
    const clip = height ? { x: 0, y: 0, ...this.page.viewportSize(), height } : undefined;
    await this.page.screenshot({ path: path.join(required("GPUEMU_SHOTS"), `${name}.png`), clip });
  }
}

/** Poll a condition until it is truthy; an exception counts as false. */
export async function until(what, condition) {
  const end = Date.now() + PATIENCE;
  let lastError;
  while (Date.now() < end) {
    try {
      const answer = await condition();
      if (answer) {
        return answer;
      }
    } catch (error) {
      lastError = error;
    }
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`timeout waiting for: ${what}`, { cause: lastError });
}

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
