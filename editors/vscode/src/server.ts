/** Where the server is: a setting, the workspace's Python environment, or PATH. */

import { access, constants } from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";

export const PROGRAM = "gpuemu-lsp";
const FOLDERS_OF_ENVIRONMENTS = [".venv", "venv", ".env", "env"];
const PYTHON_EXTENSION = "ms-python.python";

export interface Server {
  program: string;
  /** Which of our places it was found in, for the log and the status item. */
  from: "setting" | "environment" | "path";
}

/** What of the Python extension's API is used. */
interface PythonApi {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(environment: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** Return the server to start. In a workspace that is not trusted, nothing that lies in it. */
export async function findServer(): Promise<Server | undefined> {
  const setting = vscode.workspace.getConfiguration("gpuemu").get<string>("server.path", "").trim();
  if (setting) {
    // A path that is set and wrong is an error to show, not a reason to start another server.
    return { program: withHome(setting), from: "setting" };
  }
  if (vscode.workspace.isTrusted) {
    for (const folder of await environmentFolders()) {
      const program = path.join(folder, PROGRAM);
      if (await isExecutable(program)) {
        return { program, from: "environment" };
      }
    }
  }
  for (const folder of [...(process.env.PATH ?? "").split(path.delimiter), path.join(os.homedir(), ".local", "bin")]) {
    const program = path.join(folder, PROGRAM);
    if (folder && path.isAbsolute(folder) && !isInWorkspace(program) && (await isExecutable(program))) {
      return { program, from: "path" };
    }
  }
  return undefined;
}

/** Call back when another Python environment is chosen, where the Python extension is there to tell. */
export async function onEnvironmentChange(callback: () => void): Promise<vscode.Disposable> {
  const python = await pythonApi();
  return python?.environments.onDidChangeActiveEnvironmentPath(callback) ?? new vscode.Disposable(() => {});
}

/** Return the Python that an installation would go to: the workspace's own, if it has one. */
export async function environmentPython(): Promise<string | undefined> {
  if (!vscode.workspace.isTrusted) {
    return undefined;
  }
  for (const folder of await environmentFolders()) {
    const python = path.join(folder, "python");
    if (await isExecutable(python)) {
      return python;
    }
  }
  return undefined;
}

async function environmentFolders(): Promise<string[]> {
  const found: string[] = [];
  const folders = vscode.workspace.workspaceFolders ?? [];
  const python = await pythonApi();
  for (const folder of folders.length ? folders.map((each) => each.uri) : [undefined]) {
    const active = python?.environments.getActiveEnvironmentPath(folder);
    const resolved = active && (await python?.environments.resolveEnvironment(active));
    if (resolved?.executable.uri) {
      found.push(path.dirname(resolved.executable.uri.fsPath));
    }
  }
  for (const folder of folders) {
    found.push(...FOLDERS_OF_ENVIRONMENTS.map((name) => path.join(folder.uri.fsPath, name, "bin")));
  }
  return found;
}

async function pythonApi(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>(PYTHON_EXTENSION);
  try {
    const api = await extension?.activate();
    return api?.environments ? api : undefined;
  } catch {
    return undefined; // its own failure is its own to report
  }
}

function isInWorkspace(program: string): boolean {
  return vscode.workspace.getWorkspaceFolder(vscode.Uri.file(program)) !== undefined;
}

function withHome(program: string): string {
  return program.startsWith("~/") ? path.join(os.homedir(), program.slice(2)) : program;
}

async function isExecutable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
