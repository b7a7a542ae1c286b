/** The failures view: kernels and their failing cases. A click goes to the line. */

import * as path from "node:path";
import * as vscode from "vscode";
import { argumentsOf } from "./commands";
import { describeCase, type FailureModel, sizesOf } from "./failureModel";
import { startOf } from "./positions";
import type { Failure } from "./protocol";

/** A kernel with its failing cases. */
interface FailingKernel {
  name: string;
  uri: vscode.Uri;
  failures: readonly Failure[];
}

export type Node = FailingKernel | Failure;

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
      return failingKernels(this.model?.all ?? []);
    }
    return isKernel(node) ? [...node.failures] : [];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    return isKernel(node) ? kernelItem(node) : failureItem(node);
  }

  dispose(): void {
    this.tree.dispose();
    this.changed.dispose();
  }

  private refresh(): void {
    this.changed.fire(); // no badge: that of the Testing side bar, to which it would be added, counts failing kernels
  }
}

/** Group failing cases by kernel, in the order in which the server sends them. */
export function failingKernels(failures: readonly Failure[]): FailingKernel[] {
  const groups = new Map<string, Failure[]>();
  for (const failure of failures) {
    const key = `${failure.uri}#${failure.kernel}`;
    groups.set(key, [...(groups.get(key) ?? []), failure]);
  }
  return [...groups.values()].flatMap((members) => {
    const first = members[0];
    return first ? [{ name: first.kernel, uri: vscode.Uri.parse(first.uri), failures: members }] : [];
  });
}

function kernelItem({ name, uri, failures }: FailingKernel): vscode.TreeItem {
  const item = new vscode.TreeItem(name, vscode.TreeItemCollapsibleState.Expanded);
  item.id = `${uri}#${name}`;
  const cases = `${failures.length} ${failures.length === 1 ? "case" : "cases"}`;
  const file = path.basename(uri.fsPath);
  item.description = path.parse(file).name === name ? cases : `${cases}, ${file}`;
  item.tooltip = vscode.workspace.asRelativePath(uri);
  item.iconPath = new vscode.ThemeIcon("symbol-method");
  return item;
}

/** A failing case: its sizes, then what is wrong. The side bar is narrow: rule and type are in the tooltip. */
export function failureItem(failure: Failure): vscode.TreeItem {
  const item = new vscode.TreeItem(sizesOf(failure) || failure.dtype || "case");
  item.id = `${failure.uri}#case#${argumentsOf(failure).slice(1).join("#")}`;
  item.description = (failure.minimized ? "minimal: " : "") + failure.message.split("\n", 1)[0];
  item.tooltip = [failure.rule, failure.message, `${describeCase(failure)}; case ${failure.id}`].join("\n");
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

function isKernel(node: Node): node is FailingKernel {
  return "failures" in node;
}
