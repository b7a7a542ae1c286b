/** The launches view: programs that were run under gpuemu, and their launches. A click goes to the launch. */

import * as path from "node:path";
import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { startOf } from "./positions";
import { type Launch, Method, type RecordedProgram } from "./protocol";

export type LaunchNode = RecordedProgram | Launch;

export class LaunchesView implements vscode.TreeDataProvider<LaunchNode>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly tree: vscode.TreeView<LaunchNode>;
  private programs: readonly RecordedProgram[] = [];

  constructor() {
    this.tree = vscode.window.createTreeView("gpuemu.launches", { treeDataProvider: this, showCollapseAll: true });
  }

  /** Show the launches of one server until the returned disposable is disposed of. */
  follow(client: LanguageClient): vscode.Disposable {
    const listener = client.onNotification(Method.launchesChanged, () => this.refresh(client));
    void this.refresh(client);
    return new vscode.Disposable(() => {
      listener.dispose();
      this.show([]);
    });
  }

  get all(): readonly RecordedProgram[] {
    return this.programs;
  }

  getChildren(node?: LaunchNode): LaunchNode[] {
    if (node === undefined) {
      return [...this.programs];
    }
    return isProgram(node) ? [...node.launches] : [];
  }

  getTreeItem(node: LaunchNode): vscode.TreeItem {
    return isProgram(node) ? programItem(node) : launchItem(node);
  }

  dispose(): void {
    this.tree.dispose();
    this.changed.dispose();
  }

  private async refresh(client: LanguageClient): Promise<void> {
    try {
      const { recordings } = await client.sendRequest<{ recordings: RecordedProgram[] }>(Method.launches, {});
      this.show(recordings);
    } catch {
      this.show([]); // an older server without this request
    }
  }

  private show(programs: readonly RecordedProgram[]): void {
    this.programs = programs;
    this.changed.fire();
  }
}

function programItem(program: RecordedProgram): vscode.TreeItem {
  const item = new vscode.TreeItem(program.program, vscode.TreeItemCollapsibleState.Expanded);
  item.description = new Date(program.created * 1000).toLocaleString();
  item.iconPath = new vscode.ThemeIcon("run");
  return item;
}

/** A kernel's launches at one line with one shape: how often, how long, and how many were checked or repeats. */
export function launchItem(launch: Launch): vscode.TreeItem {
  const shape = `<<<${sizeText(launch.grid)}, ${sizeText(launch.block)}>>>`;
  const item = new vscode.TreeItem(launch.kernel);
  const site =
    launch.uri && launch.range
      ? `${path.basename(vscode.Uri.parse(launch.uri).fsPath)}:${launch.range.start.line + 1}`
      : "";
  const repeats = launch.repeated ? `, ${launch.repeated} repeated` : "";
  item.description = [shape, site, `${launch.checked} checked${repeats}`, `${launch.seconds.toFixed(2)} s`]
    .filter(Boolean)
    .join(" · ");
  item.tooltip = `${launch.kernel}${shape}\n${launch.count} launches, ${launch.checked} checked, ${launch.repeated} repeated\n${launch.findings} findings`;
  item.contextValue = launch.source && launch.recorded?.length ? "recordedLaunch" : "launch";
  item.iconPath = launch.findings
    ? new vscode.ThemeIcon("error", new vscode.ThemeColor("testing.iconFailed"))
    : new vscode.ThemeIcon("symbol-method");
  if (launch.uri && launch.range) {
    item.command = {
      command: "vscode.open",
      title: "Go to Launch",
      arguments: [
        vscode.Uri.parse(launch.uri),
        { selection: startOf(launch.range) } satisfies vscode.TextDocumentShowOptions,
      ],
    };
  }
  return item;
}

function sizeText([x, y, z]: Launch["grid"]): string {
  return y === 1 && z === 1 ? `${x}` : `(${x}, ${y}, ${z})`;
}

/** Return the arguments of gpuemu.debugLaunch: the launch of a row, of several with one shape the user's choice. */
export async function ofLaunch(
  args: unknown[],
  programs: readonly RecordedProgram[],
): Promise<[uri: string, kernel: string, launch: string] | undefined> {
  const [first, kernel, launch] = args;
  if (typeof first === "string" && typeof kernel === "string" && typeof launch === "string") {
    return [first, kernel, launch];
  }
  const groups = isLaunch(first) ? [first] : programs.flatMap((program) => program.launches);
  const rows = groups.flatMap((group) =>
    (group.recorded ?? []).map((digest, index, all) => ({
      label: `${group.kernel}<<<${sizeText(group.grid)}, ${sizeText(group.block)}>>>`,
      description: all.length > 1 ? `${index + 1} of ${all.length} recorded launches` : "",
      group,
      digest,
    })),
  );
  if (rows.length === 0) {
    void vscode.window.showInformationMessage(
      "gpuemu: no recorded launch; run a program with 'gpuemu: Run This Program'.",
    );
  }
  const row = rows.length > 1 ? await vscode.window.showQuickPick(rows, { placeHolder: "Recorded launch" }) : rows[0];
  return row?.group.source ? [row.group.source, row.group.kernel, row.digest] : undefined;
}

function isLaunch(value: unknown): value is Launch {
  return typeof value === "object" && value !== null && "grid" in value && "kernel" in value;
}

function isProgram(node: LaunchNode): node is RecordedProgram {
  return "launches" in node;
}
