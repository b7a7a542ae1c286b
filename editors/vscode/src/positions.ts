/** Conversion of LSP positions to VS Code's. Both count UTF-16 code units, the encoding that the client negotiates. */

import * as vscode from "vscode";
import type { Range } from "vscode-languageclient/node";

export function toRange(range: Range): vscode.Range {
  return new vscode.Range(range.start.line, range.start.character, range.end.line, range.end.character);
}

/** Return the empty range at the start of a range: going to a line must not select it. */
export function startOf(range: Range): vscode.Range {
  const { start } = toRange(range);
  return new vscode.Range(start, start);
}
