/** The protocol's positions as VS Code's. Both count UTF-16 units: that is the encoding the client asks for. */

import * as vscode from "vscode";
import type { Range } from "vscode-languageclient/node";

export function toRange(range: Range): vscode.Range {
  return new vscode.Range(range.start.line, range.start.character, range.end.line, range.end.character);
}
