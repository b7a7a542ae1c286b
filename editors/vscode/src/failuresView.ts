/** The failures view: a tree of file, kernel and failing case. A click goes to the line. */

import * as path from "node:path";
import * as vscode from "vscode";
import { argumentsOf } from "./commands";
import { describeCase, type FailureModel } from "./failureModel";
import { startOf } from "./positions";
import type { Failure } from "./protocol";

interface Group {
  kind: "file" | "kernel";
  key: string;
  label: string;
  uri: vscode.Uri;
  failures: readonly Failure[];
}

export type Node = Group | Failure;

export class FailuresView implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly tree: vscode.TreeView<Node>;
  private model: FailureModel | undefined;

  constructor() {
    this.tree = vscode.window.createTreeView("gpuemu.failures", { treeDataProvider: this, showCollapseAll: true });
  }

  /** Show the failures of one server until the returned disposable is disposed of. */
  follow(model: FailureModel): vscode.Disposable {
    this.model = model;
    const listener = model.onChanged(() => this.refresh());
    this.refresh();
    return new vscode.Disposable(() => {
      listener.dispose();
      this.model = undefined;
      this.refresh();
    });
  }

  getChildren(node?: Node): Node[] {
    if (node === undefined) {
      return group(this.model?.all ?? [], "file", (failure) => failure.uri, fileLabel);
    }
    if (!isGroup(node)) {
      return [];
    }
    return node.kind === "file"
      ? group(
          node.failures,
          "kernel",
          (failure) => failure.kernel,
          (failure) => failure.kernel,
        )
      : [...node.failures];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    return isGroup(node) ? groupItem(node) : failureItem(node);
  }

  dispose(): void {
    this.tree.dispose();
    this.changed.dispose();
  }

  private refresh(): void {
    const count = countKernels(this.model?.all ?? []);
    this.tree.badge = count
      ? { value: count, tooltip: `${count} ${count === 1 ? "kernel fails" : "kernels fail"}` }
      : undefined;
    this.changed.fire();
  }
}

function group(
  failures: readonly Failure[],
  kind: Group["kind"],
  keyOf: (failure: Failure) => string,
  labelOf: (failure: Failure) => string,
): Group[] {
  const groups = new Map<string, Failure[]>();
  for (const failure of failures) {
    groups.set(keyOf(failure), [...(groups.get(keyOf(failure)) ?? []), failure]);
  }
  return [...groups].flatMap(([key, members]) => {
    const first = members[0];
    return first ? [{ kind, key, label: labelOf(first), uri: vscode.Uri.parse(first.uri), failures: members }] : [];
  });
}

function groupItem(node: Group): vscode.TreeItem {
  const item = new vscode.TreeItem(node.label, vscode.TreeItemCollapsibleState.Expanded);
  item.id = `${node.uri}#${node.kind}#${node.key}`;
  item.description = `${node.failures.length}`;
  if (node.kind === "file") {
    item.resourceUri = node.uri;
    item.iconPath = vscode.ThemeIcon.File;
  } else {
    item.iconPath = new vscode.ThemeIcon("symbol-method");
  }
  return item;
}

/** Return the number of kernels with failing cases. */
export function countKernels(failures: readonly Failure[]): number {
  return new Set(failures.map((failure) => `${failure.uri}#${failure.kernel}`)).size;
}

/** A failing case: its type and sizes, then what is wrong; the rule's name is in the tooltip. */
export function failureItem(failure: Failure): vscode.TreeItem {
  const item = new vscode.TreeItem(describeCase(failure) + (failure.minimized ? " (minimal)" : ""));
  item.id = `${failure.uri}#case#${argumentsOf(failure).slice(1).join("#")}`;
  item.description = failure.message;
  item.tooltip = `${failure.rule}: ${failure.message}`;
  item.contextValue = "failure";
  item.iconPath = new vscode.ThemeIcon("error", new vscode.ThemeColor("testing.iconFailed"));
  item.command = {
    command: "vscode.open",
    title: "Go to Line",
    arguments: [
      vscode.Uri.parse(failure.uri),
      { selection: startOf(failure.range) } satisfies vscode.TextDocumentShowOptions,
    ],
  };
  return item;
}

function isGroup(node: Node): node is Group {
  return "failures" in node;
}

function fileLabel(failure: Failure): string {
  const uri = vscode.Uri.parse(failure.uri);
  return path.basename(uri.fsPath);
}
