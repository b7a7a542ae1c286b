/** The status bar item: whether the server runs, its health and its activity. */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { Method, type ServerStatus } from "./protocol";

const LINKS: [title: string, command: string][] = [
  ["Check all kernels", "gpuemu.checkAll"],
  ["Pause", "gpuemu.pause"],
  ["Resume", "gpuemu.resume"],
  ["Cancel", "gpuemu.cancel"],
  ["Log", "gpuemu.showLog"],
  ["Debug information", "gpuemu.debugInfo"],
  ["Restart", "gpuemu.restart"],
];

export class StatusItem implements vscode.Disposable {
  private readonly item: vscode.StatusBarItem;

  constructor() {
    this.item = vscode.window.createStatusBarItem("gpuemu.status", vscode.StatusBarAlignment.Left);
    this.item.name = "gpuemu";
  }

  /** Show the status of a server. A client has one handler for each notification, so it calls `onIdle` as well. */
  follow(client: LanguageClient, onIdle: () => void): vscode.Disposable {
    this.render({ health: "ok", quiescent: true });
    return client.onNotification(Method.status, (status: ServerStatus) => {
      this.render(status);
      if (status.quiescent) {
        onIdle();
      }
    });
  }

  starting(): void {
    this.set("$(sync~spin) gpuemu", "The server is starting.", "gpuemu.showLog");
  }

  stopped(): void {
    this.set(
      "$(circle-slash) gpuemu",
      "The server is not running: nothing is checked. Click to start it.",
      "gpuemu.restart",
    );
    this.item.backgroundColor = new vscode.ThemeColor("statusBarItem.warningBackground");
  }

  missing(): void {
    this.set(
      "$(warning) gpuemu",
      "gpuemu-lsp was not found: nothing is checked. Click to install it.",
      "gpuemu.install",
    );
    this.item.backgroundColor = new vscode.ThemeColor("statusBarItem.warningBackground");
  }

  failed(reason: string): void {
    this.set("$(error) gpuemu", reason, "gpuemu.showLog");
    this.item.backgroundColor = new vscode.ThemeColor("statusBarItem.errorBackground");
  }

  dispose(): void {
    this.item.dispose();
  }

  private render(status: ServerStatus): void {
    const { icon, text } = summary(status);
    void vscode.commands.executeCommand("setContext", "gpuemu.paused", status.paused ?? false);
    this.set(`${status.quiescent ? icon : "$(sync~spin)"} ${text}`, tooltip(status), "gpuemu.failures.focus");
    const warning = status.paused ? "warning" : undefined;
    const background = status.health === "ok" ? warning : status.health;
    if (background) {
      this.item.backgroundColor = new vscode.ThemeColor(`statusBarItem.${background}Background`);
    }
  }

  private set(text: string, tip: string | vscode.MarkdownString, command: string): void {
    this.item.text = text;
    this.item.tooltip = tip;
    this.item.command = command;
    this.item.backgroundColor = undefined;
    this.item.show(); // hidden until something needs the server
  }
}

/** Return what the item shows of a status: a tick only if kernels were run and none fails. */
export function summary(status: ServerStatus): { icon: string; text: string } {
  const failing = status.failing ?? 0;
  if (status.health !== "ok") {
    return { icon: status.health === "error" ? "$(error)" : "$(warning)", text: "gpuemu" };
  }
  const fails = failing ? `${failing} ${failing === 1 ? "kernel fails" : "kernels fail"}` : "";
  if (status.paused) {
    return { icon: "$(debug-pause)", text: `gpuemu: paused${fails && `, ${fails}`}` };
  }
  if (failing) {
    return { icon: "$(error)", text: `gpuemu: ${fails}` };
  }
  return status.restricted ? { icon: "$(shield)", text: "gpuemu: restricted" } : { icon: "$(check)", text: "gpuemu" };
}

function tooltip(status: ServerStatus): vscode.MarkdownString {
  const text = new vscode.MarkdownString("", true);
  const links = LINKS.filter(([, command]) => command !== (status.paused ? "gpuemu.pause" : "gpuemu.resume"));
  text.isTrusted = { enabledCommands: LINKS.map(([, command]) => command) };
  text.appendText(status.message ?? (status.quiescent ? "All checks are done." : "Checking."));
  const versions = Object.entries(status.versions ?? {}).map(([name, version]) => `${name} ${version}`);
  const facts = [...(status.executor ? [`executor ${status.executor}`] : []), ...versions];
  if (facts.length) {
    text.appendMarkdown("\n\n").appendText(facts.join(", "));
  }
  text.appendMarkdown(`\n\n${links.map(([title, command]) => `[${title}](command:${command})`).join(" | ")}`);
  return text;
}
