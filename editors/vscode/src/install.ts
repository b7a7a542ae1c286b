/** Installation of the server, and the message shown when there is none. */

import * as vscode from "vscode";
import { environmentPython, PROGRAM } from "./server";

const INSTALL = "Install";
const CHOOSE = "Set Its Path";

/** Warn that kernels are not checked, and offer to install the server or to set its path. */
export async function reportMissing(): Promise<void> {
  const message = `gpuemu: ${PROGRAM} was not found in the workspace's Python environment or on PATH, so kernels are not checked.`;
  const choice = await vscode.window.showWarningMessage(message, INSTALL, CHOOSE);
  if (choice === INSTALL) {
    await vscode.commands.executeCommand("gpuemu.install");
  } else if (choice === CHOOSE) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "gpuemu.server.path");
  }
}

/** Install into the workspace's Python environment, else with pipx; return whether the installation succeeded. */
export async function install(): Promise<boolean> {
  const python = await environmentPython();
  const shell = python
    ? new vscode.ShellExecution(python, ["-m", "pip", "install", "--upgrade", PROGRAM])
    : new vscode.ShellExecution("pipx", ["install", PROGRAM]);
  const task = new vscode.Task({ type: "gpuemu" }, vscode.TaskScope.Workspace, "Install the server", "gpuemu", shell);
  const ended = new Promise<boolean>((resolve) => {
    const listener = vscode.tasks.onDidEndTaskProcess((event) => {
      if (event.execution.task.name === task.name && event.execution.task.source === task.source) {
        listener.dispose();
        resolve(event.exitCode === 0);
      }
    });
  });
  await vscode.tasks.executeTask(task);
  return ended;
}
