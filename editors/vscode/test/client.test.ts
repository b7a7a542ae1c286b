import assert from "node:assert/strict";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Api } from "../src/extension";
import { Method } from "../src/protocol";

const BUGGY = "ops/row_softmax_buggy.cu";
const SERVER_COMMANDS = [
  ...["gpuemu.check", "gpuemu.checkAll", "gpuemu.cancel", "gpuemu.fuzz"],
  ...["gpuemu.minimize", "gpuemu.reproduce", "gpuemu.debugInfo"],
  ...["gpuemu.pause", "gpuemu.resume", "gpuemu.register"],
];

function uriOf(file: string): vscode.Uri {
  return vscode.Uri.file(path.join(vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "", file));
}

function gpuemuDiagnostics(uri: vscode.Uri): vscode.Diagnostic[] {
  return vscode.languages.getDiagnostics(uri).filter((each) => each.source === "gpuemu");
}

async function until(question: () => boolean): Promise<void> {
  while (!question()) {
    await new Promise((resolve) => setTimeout(resolve, 50)); // until mocha's timeout
  }
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
      await vscode.commands.executeCommand("gpuemu.restart"); // earlier tests have changed its settings
      await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uriOf(BUGGY)));
      await idle();
    });

    it("shows the server's findings, once, under its own name", async () => {
      const found = gpuemuDiagnostics(uriOf(BUGGY));
      assert(found.length > 0);
      assert.deepEqual(vscode.languages.getDiagnostics(uriOf(BUGGY)), found);
    });

    it("registers each command of the server once, also after restarts", async () => {
      for (let round = 0; round < 3; round++) {
        const commands = await vscode.commands.getCommands();
        for (const command of SERVER_COMMANDS) {
          assert.equal(commands.filter((each) => each === command).length, 1, command);
        }
        await vscode.commands.executeCommand("gpuemu.restart");
      }
      await idle();
      assert(gpuemuDiagnostics(uriOf(BUGGY)).length > 0);
    });

    it("passes the active file to a command from the palette", async () => {
      const answer = await vscode.commands.executeCommand<{ queued: number }>("gpuemu.check");
      assert.deepEqual(answer, { queued: 1 });
      await idle();
    });

    it("arranges tests as files and kernels, all of them with a state once they were checked", async () => {
      const file = uriOf(BUGGY).toString();
      const tests = api.tests();
      assert(tests);
      const kernel = tests.item(`${file}#row_softmax_buggy`);
      assert(kernel?.parent && kernel.range);
      assert.equal(kernel.parent.id, file);
      assert.equal(kernel.parent.parent, undefined);
      assert.equal(kernel.children.size, 0);
      assert.equal([...tests.controller.items].length, 4);
      await until(() => tests.failing === 1);
    });

    it("ends a cancelled run at once, and any other when its checks end", async () => {
      const tests = api.tests();
      assert(tests);
      for (const cancelled of [true, false]) {
        const all = vscode.commands.executeCommand("testing.runAll");
        await until(() => tests.running === 1);
        if (cancelled) {
          await vscode.commands.executeCommand("testing.cancelRun");
        }
        await until(() => tests.running === 0);
        await all;
        await idle();
      }
    });

    it("provides the failing case and the details for the panel", async () => {
      const model = api.failures();
      assert(model);
      const wanted = () => model.all.find((each) => each.uri === uriOf(BUGGY).toString());
      await until(() => wanted() !== undefined);
      const failure = wanted();
      assert(failure && failure.kernel === "row_softmax_buggy");
      const detail = await model.detail(failure);
      assert(detail?.picture && detail.elements.length > 0 && detail.commands.reproduce.includes(failure.id));
      assert.equal(detail.picture.expected.length, detail.picture.rows);
      assert.equal(detail.picture.wrong[0]?.length, detail.picture.cols);
      assert.equal(await model.detail({ ...failure, id: "1" }), undefined);
    });

    it("offers the panel in the lightbulb, and not on a clean line", async () => {
      const titles = async (line: number) => {
        const at = new vscode.Range(line, 6, line, 6);
        const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
          "vscode.executeCodeActionProvider",
          uriOf(BUGGY),
          at,
        );
        return actions.map((action) => action.title);
      };
      const line = gpuemuDiagnostics(uriOf(BUGGY))[0]?.range.start.line ?? 0;
      assert.equal((await titles(line)).filter((title) => title === "Show failure").length, 1);
      assert(!(await titles(line - 2)).includes("Show failure"));
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
      assert(gpuemuDiagnostics(uriOf(BUGGY)).length > 0);
    });
  });
}
