import assert from "node:assert/strict";
import * as vscode from "vscode";
import { idle, open, until, uriOf } from "./workspace";

/** The finding of a file with CUDA code in strings; columns are UTF-16 units. */
interface Expected {
  open: string;
  file: string;
  line: number;
  text: string;
  start: number;
  end: number;
}

export function stringTests(): void {
  describe("CUDA in a string", () => {
    for (const expected of JSON.parse(process.env.GPUEMU_TEST_EXPECTED ?? "[]") as Expected[]) {
      it(`is diagnosed at its range: ${expected.open}`, async () => {
        await open(expected.open);
        await idle();
        const errors = vscode.languages
          .getDiagnostics(uriOf(expected.file))
          .filter((each) => each.severity === vscode.DiagnosticSeverity.Error);
        const rules = errors.map(({ code }) => String(typeof code === "object" ? code.value : code));
        assert.equal(rules.filter((rule) => expected.text.includes(rule)).length, 1, rules.join(", "));
        for (const { source, range } of errors) {
          assert.equal(source, "gpuemu");
          assert.equal(range.start.line, expected.line);
          const text = expected.text.slice(range.start.character, range.end.character).replace(/;$/, "");
          assert.deepEqual([range.start.character, range.end.line], [expected.start, expected.line]);
          assert.equal(text, expected.text.slice(expected.start, expected.end));
        }
      });
    }

    it("has the PTX of the kernel at the cursor where several have one name", async () => {
      const { document } = await open("one_name.py");
      await idle();
      for (const [text, instruction] of [
        ["sqrtf", "sqrt.rn.f32"],
        ["cosf", "fma.rn.f32"],
      ] as const) {
        const editor = await open("one_name.py");
        const at = document.positionAt(document.getText().indexOf(text));
        editor.selection = new vscode.Selection(at, at);
        await vscode.commands.executeCommand("gpuemu.showPtx");
        const shown = () => vscode.window.visibleTextEditors.filter((each) => each.document.languageId === "ptx");
        await until(() => shown().some((each) => each.document.getText().includes(instruction)));
        await vscode.commands.executeCommand("workbench.action.closeEditorsInOtherGroups");
      }
    });
  });
}
