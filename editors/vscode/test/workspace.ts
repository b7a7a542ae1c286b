/** Files of the workspace that tests open, and the server that checks them. */

import assert from "node:assert/strict";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Api } from "../src/extension";
import { Method } from "../src/protocol";

export function uriOf(file: string): vscode.Uri {
  return vscode.Uri.file(path.join(vscode.workspace.workspaceFolders?.[0]?.uri.fsPath ?? "", file));
}

export async function open(file: string): Promise<vscode.TextEditor> {
  return vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uriOf(file)));
}

export async function extensionApi(): Promise<Api> {
  const extension = vscode.extensions.getExtension<Api>("gpuemu.gpuemu");
  assert(extension);
  return extension.activate();
}

/** Wait for the end of all checks. */
export async function idle(): Promise<void> {
  const api = await extensionApi();
  await until(() => api.client() !== undefined);
  await api.client()?.sendRequest(Method.waitForIdle, null);
}

export async function until(question: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await question())) {
    await new Promise((resolve) => setTimeout(resolve, 50)); // until mocha's timeout
  }
}
