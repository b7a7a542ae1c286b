/** Discovery of the server: a setting, the workspace's Python environment, or PATH. */

import { access, constants } from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";
import * as vscode from "vscode";

export const PROGRAM = "gpuemu-lsp";
const ENVIRONMENT_FOLDERS = [".venv", "venv", ".env", "env"];
const PYTHON_EXTENSION = "ms-python.python";

export interface Server {
  program: string;
  /** Where it was found, for the log. */
  from: "setting" | "environment" | "path";
}

/** The part of the Python extension's API that is used. */
interface PythonApi {
  environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { path: string };
    resolveEnvironment(environment: { path: string }): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
    onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** Return the server to start; in an untrusted workspace, never a program inside the workspace. */
export async function findServer(): Promise<Server | undefined> {
  const setting = vscode.workspace.getConfiguration("gpuemu").get<string>("server.path", "").trim();
  if (setting) {
    // A wrong path is reported when the server is started; another server is not a substitute.
    return { program: expandHome(setting), from: "setting" };
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

/** Call back when another Python environment is selected, if the Python extension is installed. */
export async function onEnvironmentChange(callback: () => void): Promise<vscode.Disposable> {
  const python = await pythonApi();
  return python?.environments.onDidChangeActiveEnvironmentPath(callback) ?? new vscode.Disposable(() => {});
}

/** Return the interpreter of the workspace's environment, the target of an installation. */
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
    found.push(...ENVIRONMENT_FOLDERS.map((name) => path.join(folder.uri.fsPath, name, "bin")));
  }
  return found;
}

async function pythonApi(): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>(PYTHON_EXTENSION);
  try {
    const api = await extension?.activate();
    return api?.environments ? api : undefined;
  } catch {
    return undefined; // the Python extension reports its failures itself
  }
}

function isInWorkspace(program: string): boolean {
  return vscode.workspace.getWorkspaceFolder(vscode.Uri.file(program)) !== undefined;
}

function expandHome(program: string): string {
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
