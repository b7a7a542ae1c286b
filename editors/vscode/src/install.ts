/** What to do when there is no server: say so, and offer to install it. */

import * as vscode from "vscode";
import { environmentPython, PROGRAM } from "./server";

const INSTALL = "Install";
const CHOOSE = "Choose Its Path";

/** Say that nothing is checked, and offer the ways out of it. */
export async function reportMissing(): Promise<void> {
  const message = `gpuemu: ${PROGRAM} was not found in the workspace's Python environment or on PATH, so no kernel is checked.`;
  const choice = await vscode.window.showWarningMessage(message, INSTALL, CHOOSE);
  if (choice === INSTALL) {
    await vscode.commands.executeCommand("gpuemu.install");
  } else if (choice === CHOOSE) {
    await vscode.commands.executeCommand("workbench.action.openSettings", "gpuemu.server.path");
  }
}

/** Install into the workspace's environment, or with pipx where there is none; return whether that went well. */
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
