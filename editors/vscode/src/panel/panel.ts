/** The failure panel. Its web page only draws; it requests every action by a message. */

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import { argumentsOf, ofCase } from "../commands";
import type { FailureModel } from "../failureModel";
import { startOf } from "../positions";
import type { CaseName, FailureDetail } from "../protocol";
import type { ToHost, ToPage } from "./messages";

export class FailurePanels implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private wanted: CaseName = { uri: "", id: "" };
  private detail: FailureDetail | undefined;
  private readonly parts: vscode.Disposable[];

  constructor(
    private readonly failures: FailureModel,
    private readonly extension: vscode.Uri,
  ) {
    this.parts = [
      vscode.commands.registerCommand("gpuemu.showFailure", async (...args: unknown[]) => {
        const wanted = await ofCase(args, failures);
        if (wanted) {
          this.show(wanted);
        }
      }),
      failures.onChanged(() => this.refresh()),
    ];
  }

  dispose(): void {
    this.panel?.dispose();
    for (const part of this.parts) {
      part.dispose();
    }
  }

  private show(wanted: CaseName): void {
    this.wanted = wanted;
    if (this.panel) {
      this.panel.reveal(undefined, true);
      void this.refresh();
      return;
    }
    const roots = [vscode.Uri.joinPath(this.extension, "dist"), vscode.Uri.joinPath(this.extension, "media")];
    const place = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    const panel = vscode.window.createWebviewPanel("gpuemu.failure", "Failure", place, {
      enableScripts: true,
      localResourceRoots: roots,
    });
    this.panel = panel;
    panel.iconPath = vscode.Uri.joinPath(this.extension, "media", "view.svg");
    panel.webview.onDidReceiveMessage((message: ToHost) => this.receive(message));
    panel.onDidDispose(() => {
      this.panel = undefined;
    });
    panel.webview.html = html(panel.webview, this.extension);
  }

  private async receive(message: ToHost): Promise<void> {
    switch (message.kind) {
      case "ready":
        return this.refresh();
      case "reproduce":
      case "minimize":
        await vscode.commands.executeCommand(`gpuemu.${message.kind}`, ...argumentsOf(this.wanted));
        return;
      case "copy":
        await vscode.env.clipboard.writeText(this.detail?.commands.reproduce ?? "");
        vscode.window.setStatusBarMessage("$(check) Copied", 3000);
        return;
      case "goToLine":
        if (this.detail) {
          const options = { selection: startOf(this.detail.range), viewColumn: vscode.ViewColumn.One };
          await vscode.window.showTextDocument(vscode.Uri.parse(this.detail.uri), options);
        }
    }
  }

  private async refresh(): Promise<void> {
    const { panel, wanted } = this;
    if (!panel) {
      return;
    }
    const detail = await this.failures.detail(wanted);
    if (panel !== this.panel || wanted !== this.wanted) {
      return; // another case was requested meanwhile
    }
    this.detail = detail;
    panel.title = detail ? `${detail.kernel}: ${detail.rule}` : "Failure (gone)";
    const message: ToPage = detail ? { kind: "show", detail } : { kind: "gone" };
    await panel.webview.postMessage(message);
  }
}

function html(webview: vscode.Webview, extension: vscode.Uri): string {
  const script = webview.asWebviewUri(vscode.Uri.joinPath(extension, "dist", "panel.js"));
  const style = webview.asWebviewUri(vscode.Uri.joinPath(extension, "media", "panel.css"));
  const nonce = randomBytes(16).toString("base64");
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'">
<link rel="stylesheet" href="${style}">
<title>Failure</title>
</head>
<body><main id="main"></main><script nonce="${nonce}" src="${script}"></script></body>
</html>`;
}
