/**
 * PTX, SASS, TTIR or TTGIR in an editor next to the source.
 *
 * The instructions of the current source line are highlighted, and the source line of the current instruction. The
 * definition of an instruction is its source line.
 */

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

export class Artifacts implements vscode.TextDocumentContentProvider, vscode.DefinitionProvider, vscode.Disposable {
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
      vscode.languages.registerDefinitionProvider({ scheme: SCHEME }, this),
      vscode.window.onDidChangeTextEditorSelection((event) => this.follow(event.textEditor)),
      vscode.workspace.onDidSaveTextDocument((document) => this.reload(document.uri.toString())),
      vscode.workspace.onDidCloseTextDocument((document) => this.shown.delete(document.uri.toString())),
      vscode.commands.registerCommand("gpuemu.showPtx", () => this.showCurrent("ptx")),
      vscode.commands.registerCommand("gpuemu.showSass", () => this.showCurrent("sass")),
      vscode.commands.registerCommand("gpuemu.showTtir", () => this.showCurrent("ttir")),
      vscode.commands.registerCommand("gpuemu.showTtgir", () => this.showCurrent("ttgir")),
      vscode.commands.registerCommand("gpuemu.goToSource", () => this.goToSource()),
    ];
  }

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.shown.get(uri.toString())?.artifact.text ?? "";
  }

  /** Return the source line of an instruction. */
  provideDefinition(document: vscode.TextDocument, position: vscode.Position): vscode.Location | undefined {
    const shown = this.shown.get(document.uri.toString());
    const line = shown && sourceOf(shown.artifact, position.line);
    return shown && line !== undefined
      ? new vscode.Location(vscode.Uri.parse(shown.source), new vscode.Position(line, 0))
      : undefined;
  }

  /** Show the code of a kernel in an editor next to its source. */
  async show(source: string, kernel: string, form: ArtifactForm): Promise<void> {
    const artifact = await this.fetch(source, kernel, form);
    if (!artifact) {
      return;
    }
    const uri = vscode.Uri.from({
      scheme: SCHEME,
      path: `/${kernel.replaceAll(/[/<>: ]+/g, "_")}.${artifact.arch}.${form}`, // the suffix selects the language
      query: `${kernel}&${source}`,
    });
    this.shown.set(uri.toString(), { source, kernel, form, uri, artifact });
    this.changed.fire(uri);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true });
    for (const editor of vscode.window.visibleTextEditors) {
      if (editor.document.uri.toString() === source) {
        this.follow(editor);
      }
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

  /** Go from the current instruction to its source line. */
  private async goToSource(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const found = editor && this.provideDefinition(editor.document, editor.selection.active);
    if (found) {
      const open = vscode.window.visibleTextEditors.find(
        (each) => each.document.uri.toString() === found.uri.toString(),
      );
      await vscode.window.showTextDocument(found.uri, { selection: found.range, viewColumn: open?.viewColumn });
    } else if (editor) {
      void vscode.window.showInformationMessage("gpuemu: this line has no instruction of the source.");
    }
  }

  /** Highlight what belongs together: instructions of the current source line, or the other way round. */
  private follow(moved: vscode.TextEditor): void {
    const own = this.shown.get(moved.document.uri.toString());
    if (own && moved !== vscode.window.activeTextEditor) {
      return; // its cursor is set when it opens
    }
    const line = own ? sourceOf(own.artifact, moved.selection.active.line) : moved.selection.active.line;
    const source = own?.source ?? moved.document.uri.toString();
    for (const editor of vscode.window.visibleTextEditors) {
      const uri = editor.document.uri.toString();
      const shown = this.shown.get(uri);
      if (shown?.source === source) {
        const ranges = line === undefined ? [] : linesOf(shown.artifact, line);
        this.mark(editor, ranges, editor !== moved);
      } else if (uri === source) {
        this.mark(editor, own && line !== undefined ? [new vscode.Range(line, 0, line, 0)] : [], own !== undefined);
      }
    }
  }

  private mark(editor: vscode.TextEditor, ranges: readonly vscode.Range[], reveal: boolean): void {
    editor.setDecorations(this.highlight, ranges);
    if (reveal && ranges[0]) {
      editor.revealRange(ranges[0], vscode.TextEditorRevealType.InCenterIfOutsideViewport);
    }
  }
}

/** Return the lines of the artifact generated from a source line. */
export function linesOf(artifact: Artifact, line: number): vscode.Range[] {
  return artifact.map.filter((each) => each.line === line).map((each) => new vscode.Range(each.first, 0, each.last, 0));
}

/** Return the source line that a line of the artifact was generated from. */
export function sourceOf(artifact: Artifact, line: number): number | undefined {
  return artifact.map.find((each) => each.first <= line && line <= each.last)?.line;
}
