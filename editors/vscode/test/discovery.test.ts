import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";
import { findServer, PROGRAM } from "../src/server";

/** Put an executable of the server's name into a folder. */
function place(folder: string): string {
  mkdirSync(folder, { recursive: true });
  const program = path.join(folder, PROGRAM);
  writeFileSync(program, "#!/bin/sh\n");
  chmodSync(program, 0o755);
  return program;
}

export function discoveryTests(): void {
  describe("finding the server", () => {
    const before = { PATH: process.env.PATH, HOME: process.env.HOME };
    const workspace = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "";
    let folder: string;

    beforeEach(() => {
      folder = mkdtempSync(path.join(os.tmpdir(), "gpuemu-"));
      process.env.PATH = path.join(folder, "bin");
      process.env.HOME = folder;
    });

    afterEach(() => {
      Object.assign(process.env, before);
      rmSync(folder, { recursive: true });
      rmSync(path.join(workspace, ".venv"), { recursive: true, force: true });
    });

    it("finds nothing if no server is installed", async () => {
      assert.equal(await findServer(), undefined);
    });

    it("finds it on PATH, and in the folder of pipx", async () => {
      const piped = place(path.join(folder, ".local/bin"));
      assert.deepEqual(await findServer(), { program: piped, from: "path" });
      const program = place(path.join(folder, "bin"));
      assert.deepEqual(await findServer(), { program, from: "path" });
    });

    it("ignores a file that is not executable", async () => {
      chmodSync(place(path.join(folder, "bin")), 0o644);
      assert.equal(await findServer(), undefined);
    });

    it("ignores folders of PATH inside the workspace", async () => {
      place(path.join(workspace, ".venv/elsewhere"));
      process.env.PATH = path.join(workspace, ".venv/elsewhere");
      assert.equal(await findServer(), undefined);
    });

    it("prefers the workspace's own environment", async () => {
      place(path.join(folder, "bin"));
      const program = place(path.join(workspace, ".venv/bin"));
      assert.deepEqual(await findServer(), { program, from: "environment" });
    });

    it("prefers the setting, even a wrong one", async () => {
      place(path.join(workspace, ".venv/bin"));
      const settings = vscode.workspace.getConfiguration("gpuemu");
      await settings.update("server.path", "~/nowhere/gpuemu-lsp", vscode.ConfigurationTarget.Global);
      try {
        assert.deepEqual(await findServer(), { program: path.join(folder, "nowhere/gpuemu-lsp"), from: "setting" });
      } finally {
        await settings.update("server.path", undefined, vscode.ConfigurationTarget.Global);
      }
    });
  });
}
