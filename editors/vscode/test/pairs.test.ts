import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import * as vscode from "vscode";
import { extensionApi, idle, open, until, uriOf } from "./workspace";

const MODEL = "model.py";
const KERNEL = "bias_relu_kernel";

function found(): vscode.Diagnostic[] {
  return vscode.languages.getDiagnostics(uriOf(MODEL)).filter((each) => each.source === "gpuemu");
}

async function hover(): Promise<string> {
  const document = await vscode.workspace.openTextDocument(uriOf(MODEL));
  const at = document.positionAt(document.getText().indexOf(KERNEL) + 2);
  const hovers = await vscode.commands.executeCommand<vscode.Hover[]>("vscode.executeHoverProvider", document.uri, at);
  return hovers
    .flatMap((each) => each.contents.map((part) => (typeof part === "string" ? part : part.value)))
    .join("\n");
}

async function replace(old: string, text: string): Promise<void> {
  const { document } = await open(MODEL);
  const start = document.getText().indexOf(old);
  assert(start >= 0);
  const edit = new vscode.WorkspaceEdit();
  edit.replace(
    document.uri,
    new vscode.Range(document.positionAt(start), document.positionAt(start + old.length)),
    text,
  );
  assert(await vscode.workspace.applyEdit(edit));
  assert(await document.save());
}

export function pairTests(): void {
  describe("a PyTorch model next to its CUDA version", () => {
    it("is registered by the lightbulb, and its kernel agrees with Model.forward", async () => {
      const { document } = await open(MODEL);
      await idle();
      assert.doesNotMatch(await hover(), /passed/); // without a reference
      const at = document.positionAt(document.getText().indexOf(KERNEL) + 2);
      const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
        "vscode.executeCodeActionProvider",
        document.uri,
        new vscode.Range(at, at),
        undefined,
        20,
      );
      const action = actions.find((each) => each.title.startsWith(`Register ${KERNEL} `));
      assert(action, `no registration among: ${actions.map((each) => each.title).join(", ")}`);
      if (action.edit) {
        assert(await vscode.workspace.applyEdit(action.edit));
      }
      if (action.command) {
        await vscode.commands.executeCommand(action.command.command, ...(action.command.arguments ?? []));
      }
      await vscode.workspace.saveAll(false);
      assert(existsSync(uriOf("gpuemu.toml").fsPath));
      await until(async () => /passed/.test(await hover())); // the client reports the new files after a delay
      await idle();
      assert.deepEqual(
        found().map((each) => each.message),
        [],
      );
      assert.match(await hover(), /passed/);
      const tests = (await extensionApi()).tests();
      assert.equal(tests?.failing, 0);
    });

    it("fails when its kernel computes something else", async () => {
      await replace("fmaxf(a[idx], 0.0f)", "fabsf(a[idx])");
      await until(() => found().length > 0);
      await idle();
      const errors = found().filter((each) => each.severity === vscode.DiagnosticSeverity.Error);
      assert.equal(errors.length, 1);
      const { code, range } = errors[0] as vscode.Diagnostic;
      assert.equal(typeof code === "object" ? code.value : code, "numeric/tolerance-exceeded");
      const { document } = await open(MODEL);
      assert.match(document.lineAt(range.start.line).text, /fabsf/);
      assert.match(await hover(), /FAILED/);
    });

    it("passes again when that is taken back", async () => {
      await replace("fabsf(a[idx])", "fmaxf(a[idx], 0.0f)");
      await until(() => found().length === 0);
      await idle();
      assert.deepEqual(found(), []);
      assert.match(await hover(), /passed/);
    });
  });
}
