/** The lanes panel of a debug session: the variables of the frame in the 32 lanes of its warp, equal neighbours as one. */

import * as vscode from "vscode";

const CONTEXT_DEBUGGING = "gpuemu.debugging";

/** Lanes that follow each other and have one value. */
export interface LaneRun {
  lanes: string;
  value: string;
}

/** A variable: its values on one line, and its runs. */
export interface LanesOfVariable {
  name: string;
  value: string;
  runs: LaneRun[];
}

type Node = LanesOfVariable | LaneRun;

/** Shows the lanes of the frame that is looked at, of sessions of one type. */
export class LanesView implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onDidChangeTreeData = this.changed.event;
  private readonly tree: vscode.TreeView<Node>;
  private readonly listeners: vscode.Disposable[];
  private variables: readonly LanesOfVariable[] = [];
  private asked = 0;

  constructor(private readonly type: string) {
    this.tree = vscode.window.createTreeView("gpuemu.lanes", { treeDataProvider: this });
    const sessions = () =>
      vscode.commands.executeCommand("setContext", CONTEXT_DEBUGGING, vscode.debug.activeDebugSession?.type === type);
    this.listeners = [
      vscode.debug.onDidChangeActiveDebugSession(sessions),
      vscode.debug.onDidChangeActiveStackItem((item) => this.refresh(item)),
    ];
  }

  get all(): readonly LanesOfVariable[] {
    return this.variables;
  }

  getChildren(node?: Node): Node[] {
    if (node === undefined) {
      return [...this.variables];
    }
    return "runs" in node ? node.runs : [];
  }

  getTreeItem(node: Node): vscode.TreeItem {
    return "runs" in node ? variableItem(node) : runItem(node);
  }

  dispose(): void {
    for (const each of this.listeners) {
      each.dispose();
    }
    this.tree.dispose();
    this.changed.dispose();
  }

  private async refresh(item: vscode.DebugThread | vscode.DebugStackFrame | undefined): Promise<void> {
    const asked = ++this.asked;
    let found: { first: number; lanes: LanesOfVariable[] } | undefined;
    if (item instanceof vscode.DebugStackFrame && item.session.type === this.type) {
      try {
        found = await item.session.customRequest("gpuemu/lanes", { frameId: item.frameId });
      } catch {
        // the session has ended, or has moved on
      }
    }
    if (asked === this.asked) {
      this.variables = found?.lanes ?? [];
      this.tree.description = found ? `threads ${found.first} to ${found.first + 31}` : "";
      this.changed.fire();
    }
  }
}

/** One variable; it opens to its runs unless all lanes have one value. */
export function variableItem({ name, value, runs }: LanesOfVariable): vscode.TreeItem {
  const { None, Collapsed } = vscode.TreeItemCollapsibleState;
  const item = new vscode.TreeItem(name, runs.length > 1 ? Collapsed : None);
  item.description = value;
  item.tooltip = `${name}: ${value}`;
  return item;
}

function runItem({ lanes, value }: LaneRun): vscode.TreeItem {
  const item = new vscode.TreeItem(lanes);
  item.description = value;
  return item;
}
