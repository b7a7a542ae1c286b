/** The protocol's positions as VS Code's. Both count UTF-16 units: that is the encoding the client asks for. */

import * as vscode from "vscode";
import type { Range } from "vscode-languageclient/node";

export function toRange(range: Range): vscode.Range {
  return new vscode.Range(range.start.line, range.start.character, range.end.line, range.end.character);
}

/** Where a range begins, as what an editor selects: to go to a line is not to select it. */
export function startOf(range: Range): vscode.Range {
  const { start } = toRange(range);
  return new vscode.Range(start, start);
}
