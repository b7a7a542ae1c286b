/** PTX or SASS in an editor next to the source, with the instructions of the current source line highlighted. */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { type Artifact, type ArtifactForm, Method, type Test } from "./protocol";

const SCHEME = "gpuemu-artifact";

interface OpenArtifact {
  source: string;
  kernel: string;
  form: ArtifactForm;
  uri: vscode.Uri;
  artifact: Artifact;
}

export class Artifacts implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly shown = new Map<string, OpenArtifact>();
  private readonly highlight = vscode.window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new vscode.ThemeColor("editor.wordHighlightStrongBackground"),
    overviewRulerColor: new vscode.ThemeColor("editorOverviewRuler.wordHighlightStrongForeground"),
    overviewRulerLane: vscode.OverviewRulerLane.Full,
  });
  private readonly parts: vscode.Disposable[];

  constructor(private readonly client: LanguageClient) {
    this.parts = [
      this.highlight,
      this.changed,
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      vscode.window.onDidChangeTextEditorSelection((event) => this.follow(event.textEditor)),
      vscode.workspace.onDidSaveTextDocument((document) => this.reload(document.uri.toString())),
      vscode.workspace.onDidCloseTextDocument((document) => this.shown.delete(document.uri.toString())),
      vscode.commands.registerCommand("gpuemu.showPtx", () => this.showCurrent("ptx")),
      vscode.commands.registerCommand("gpuemu.showSass", () => this.showCurrent("sass")),
    ];
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.shown.get(uri.toString())?.artifact.text ?? "";
  }

  /** Show the PTX or SASS of a kernel in an editor next to its source. */
  async show(source: string, kernel: string, form: ArtifactForm): Promise<void> {
    const artifact = await this.fetch(source, kernel, form);
    if (!artifact) {
      return;
    }
    const uri = vscode.Uri.from({
      scheme: SCHEME,
      path: `/${artifact.title.replaceAll("/", "_")}`,
      query: `${kernel}&${source}`,
    });
    this.shown.set(uri.toString(), { source, kernel, form, uri, artifact });
    this.changed.fire(uri);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
    for (const editor of vscode.window.visibleTextEditors) {
      this.follow(editor);
    }
  }

  dispose(): void {
    for (const part of this.parts) {
      part.dispose();
    }
  }

  /** Show the kernel at the cursor: the last one that begins above it. */
  private async showCurrent(form: ArtifactForm): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    if (!editor) {
      return;
    }
    const source = editor.document.uri.toString();
    const { tests } = await this.client.sendRequest<{ tests: Test[] }>(Method.discoverTests, {});
    const kernels = tests
      .filter((test) => test.kind === "kernel" && test.uri === source && test.range)
      .sort((one, other) => (one.range?.start.line ?? 0) - (other.range?.start.line ?? 0));
    const line = editor.selection.active.line;
    const kernel = kernels.filter((test) => (test.range?.start.line ?? 0) <= line).at(-1) ?? kernels[0];
    if (kernel) {
      await this.show(source, kernel.label, form);
    } else {
      void vscode.window.showInformationMessage("gpuemu: this file has no kernel.");
    }
  }

  private async fetch(source: string, kernel: string, form: ArtifactForm): Promise<Artifact | undefined> {
    try {
      return await this.client.sendRequest<Artifact>(Method.artifact, { textDocument: { uri: source }, kernel, form });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      void vscode.window.showErrorMessage(`gpuemu: no ${form.toUpperCase()} of ${kernel}: ${reason}`);
      return undefined;
    }
  }

  private async reload(source: string): Promise<void> {
    for (const shown of [...this.shown.values()].filter((each) => each.source === source)) {
      const artifact = await this.fetch(source, shown.kernel, shown.form);
      if (artifact) {
        shown.artifact = artifact;
        this.changed.fire(shown.uri);
      }
    }
  }

  private follow(source: vscode.TextEditor): void {
    const line = source.selection.active.line;
    for (const editor of vscode.window.visibleTextEditors) {
      const shown = this.shown.get(editor.document.uri.toString());
      if (shown?.source === source.document.uri.toString()) {
        const ranges = linesOf(shown.artifact, line);
        editor.setDecorations(this.highlight, ranges);
        if (ranges[0]) {
          editor.revealRange(ranges[0], vscode.TextEditorRevealType.InCenterIfOutsideViewport);
        }
      }
    }
  }
}

/** Return the lines of the artifact generated from a source line. */
export function linesOf(artifact: Artifact, line: number): vscode.Range[] {
  return artifact.map.filter((each) => each.line === line).map((each) => new vscode.Range(each.first, 0, each.last, 0));
}
