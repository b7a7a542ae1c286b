/** Starts the language server and everything that shows what it says; stops both together. */

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, RevealOutputChannelOn, State } from "vscode-languageclient/node";
import { Artifacts } from "./artifacts";
import { middleware } from "./commands";
import { FailureModel } from "./failureModel";
import { FailuresView } from "./failuresView";
import { install, reportMissing } from "./install";
import { FailurePanels } from "./panel/panel";
import { findServer, onEnvironmentChange, type Server } from "./server";
import { StatusItem } from "./status";
import { KernelTests } from "./tests";

const CONTEXT_RUNNING = "gpuemu.running";

/** What the extension's own tests may ask. */
export interface Api {
  client(): LanguageClient | undefined;
  failures(): FailureModel | undefined;
  tests(): KernelTests | undefined;
}

export async function activate(context: vscode.ExtensionContext): Promise<Api> {
  const log = vscode.window.createOutputChannel("gpuemu", { log: true });
  const face = new Face(context, log);
  const restart = () => face.restart();
  context.subscriptions.push(
    log,
    face,
    vscode.commands.registerCommand("gpuemu.restart", restart),
    vscode.commands.registerCommand("gpuemu.showLog", () => log.show()),
    vscode.commands.registerCommand("gpuemu.install", async () => {
      if (await install()) {
        await face.restart();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(restart),
    vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("gpuemu.server") && restart()),
  );
  await vscode.commands.executeCommand("setContext", "gpuemu.active", true);
  await face.restart();
  // That event fires often: only another server is a reason to restart.
  context.subscriptions.push(await onEnvironmentChange(() => face.restartIfMoved()));
  return face.api;
}

/** One server at a time, and what shows it. */
class Face implements vscode.Disposable {
  readonly api: Api = {
    client: () => this.client,
    failures: () => this.failures,
    tests: () => this.tests,
  };
  private client: LanguageClient | undefined;
  private server: Server | undefined;
  private failures: FailureModel | undefined;
  private tests: KernelTests | undefined;
  private readonly shown: vscode.Disposable[] = [];
  private readonly status: StatusItem;
  private readonly view: FailuresView;
  private restarting: Promise<void> = Promise.resolve();

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.status = new StatusItem();
    this.view = new FailuresView();
  }

  /** Stop the server, if one runs, look for one again and start it. One restart at a time. */
  restart(): Promise<void> {
    this.restarting = this.restarting.then(() => this.replace());
    return this.restarting;
  }

  async restartIfMoved(): Promise<void> {
    const found = await findServer();
    if (found?.program !== this.server?.program) {
      await this.restart();
    }
  }

  async dispose(): Promise<void> {
    await this.stop();
    this.status.dispose();
    this.view.dispose();
  }

  private async replace(): Promise<void> {
    await this.stop();
    this.server = await findServer();
    if (!this.server) {
      this.status.missing();
      void reportMissing();
      return;
    }
    this.log.info(`server: ${this.server.program} (from ${this.server.from})`);
    const client = new LanguageClient(
      "gpuemu",
      "gpuemu",
      { command: this.server.program, args: ["--stdio"] },
      this.options(),
    );
    this.client = client;
    client.onDidChangeState((event) => this.follow(client, event.newState));
    try {
      await client.start();
    } catch (error) {
      this.log.error(`${this.server.program}: ${error}`); // the language client has told the user
      this.status.failed(`${this.server.program} does not start`);
    }
  }

  private options(): LanguageClientOptions {
    return {
      documentSelector: [
        { scheme: "file", pattern: "**/*.{cu,cuh,h,hpp}" },
        { scheme: "file", pattern: "**/gpuemu.toml" },
        { scheme: "file", pattern: "**/*.py" },
      ],
      initializationOptions: { trusted: vscode.workspace.isTrusted },
      synchronize: { configurationSection: "gpuemu" },
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: middleware({
        failures: () => this.failures,
        artifacts: () => this.shown.find((each): each is Artifacts => each instanceof Artifacts),
      }),
    };
  }

  private follow(client: LanguageClient, state: State): void {
    if (client !== this.client) {
      return; // one that is being replaced
    }
    if (state === State.Running) {
      this.show(client);
    } else {
      this.hide();
      if (state === State.Starting) {
        this.status.starting();
      }
    }
  }

  /** Everything that shows what this server says lives as long as the server. */
  private show(client: LanguageClient): void {
    this.hide();
    const failures = new FailureModel(client);
    const tests = new KernelTests(client);
    this.failures = failures;
    this.tests = tests;
    const panels = new FailurePanels(failures, this.context.extensionUri);
    this.shown.push(
      failures,
      tests,
      panels,
      this.status.follow(client),
      this.view.follow(failures),
      new Artifacts(client),
    );
    void vscode.commands.executeCommand("setContext", CONTEXT_RUNNING, true);
  }

  private hide(): void {
    this.failures = undefined;
    this.tests = undefined;
    for (const each of this.shown.splice(0)) {
      each.dispose();
    }
    this.status.stopped();
    void vscode.commands.executeCommand("setContext", CONTEXT_RUNNING, false);
  }

  private async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    try {
      await client?.dispose();
    } catch (error) {
      this.log.warn(`stopping the server: ${error}`);
    }
    this.hide();
  }
}
