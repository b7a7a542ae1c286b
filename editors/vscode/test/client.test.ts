import assert from "node:assert/strict";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Api } from "../src/extension";
import { Method } from "../src/protocol";

const BUGGY = "ops/row_softmax_buggy.cu";
const SERVER_COMMANDS = ["gpuemu.check", "gpuemu.checkAll", "gpuemu.cancel"];

function uriOf(file: string): vscode.Uri {
  return vscode.Uri.file(path.join(vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "", file));
}

function ours(uri: vscode.Uri): vscode.Diagnostic[] {
  return vscode.languages.getDiagnostics(uri).filter((each) => each.source === "gpuemu");
}

export function clientTests(): void {
  describe("the client", () => {
    let api: Api;

    const idle = async () => {
      const client = api.client();
      assert(client);
      await client.sendRequest(Method.waitForIdle, null);
    };

    before(async () => {
      const extension = vscode.extensions.getExtension<Api>("gpuemu.gpuemu");
      assert(extension);
      api = await extension.activate();
      await vscode.commands.executeCommand("gpuemu.restart"); // the tests before have changed its settings
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uriOf(BUGGY)));
      await idle();
    });

    it("shows the server's findings as its own and nobody else's", async () => {
      const found = ours(uriOf(BUGGY));
      assert(found.length > 0);
      assert.deepEqual(vscode.languages.getDiagnostics(uriOf(BUGGY)), found);
    });

    it("has each of the server's commands once, also after restarts", async () => {
      for (let round = 0; round < 3; round++) {
        const commands = await vscode.commands.getCommands();
        for (const command of SERVER_COMMANDS) {
          assert.equal(commands.filter((each) => each === command).length, 1, command);
        }
        await vscode.commands.executeCommand("gpuemu.restart");
      }
      await idle();
      assert(ours(uriOf(BUGGY)).length > 0);
    });

    it("gives a command from the palette the file in front", async () => {
      const answer = await vscode.commands.executeCommand<{ queued: number }>("gpuemu.check");
      assert.deepEqual(answer, { queued: 1 });
      await idle();
    });

    it("restarts a server that was killed, and checks again", async () => {
      const client = api.client();
      assert(client);
      const running = new Promise<void>((resolve) => {
        const listener = client.onDidChangeState((event) => {
          if (event.newState === 2) {
            listener.dispose();
            resolve();
          }
        });
      });
      const server = (client as unknown as { _serverProcess: { pid: number } })._serverProcess;
      process.kill(server.pid, "SIGKILL");
      await running;
      await idle();
      assert(ours(uriOf(BUGGY)).length > 0);
    });
  });
}
