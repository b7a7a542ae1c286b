/** Entry point: starts the language server and the views of its results, and stops them together. */

import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, RevealOutputChannelOn, State } from "vscode-languageclient/node";
import { Artifacts } from "./artifacts";
import { whenNeeded } from "./attention";
import { middleware } from "./commands";
import { registerDebugger } from "./debugger";
import { FailureModel } from "./failureModel";
import { FailuresView } from "./failuresView";
import { install, reportMissing } from "./install";
import { LaunchesView } from "./launchesView";
import { FailurePanels } from "./panel/panel";
import { findServer, onEnvironmentChange, type Server } from "./server";
import { StatusItem } from "./status";
import { KernelTests } from "./tests";

const CONTEXT_RUNNING = "gpuemu.running";

/** API for the extension's own tests. */
export interface Api {
  client(): LanguageClient | undefined;
  failures(): FailureModel | undefined;
  tests(): KernelTests | undefined;
  launches(): LaunchesView;
}

export async function activate(context: vscode.ExtensionContext): Promise<Api> {
  const log = vscode.window.createOutputChannel("gpuemu", { log: true });
  const manager = new ClientManager(context, log);
  const restart = () => manager.restart();
  context.subscriptions.push(
    log,
    manager,
    registerDebugger(
      () => manager.api.failures(),
      () => manager.api.client(),
    ),
    vscode.commands.registerCommand("gpuemu.restart", restart),
    vscode.commands.registerCommand("gpuemu.showLog", () => log.show()),
    vscode.commands.registerCommand("gpuemu.install", async () => {
      if (await install()) {
        await manager.restart();
      }
    }),
  );
  const begin = async () => {
    context.subscriptions.push(
      vscode.workspace.onDidGrantWorkspaceTrust(restart),
      vscode.workspace.onDidChangeConfiguration((event) => event.affectsConfiguration("gpuemu.server") && restart()),
    );
    await manager.restart();
    // The event fires often; restart only if it leads to another server.
    context.subscriptions.push(await onEnvironmentChange(() => manager.restartIfServerChanged()));
  };
  context.subscriptions.push(await whenNeeded(begin));
  return manager.api;
}

/** Owns the language client, at most one at a time, and the views that live as long as it runs. */
class ClientManager implements vscode.Disposable {
  readonly api: Api = {
    client: () => this.client,
    failures: () => this.failures,
    tests: () => this.tests,
    launches: () => this.launchesView,
  };
  private client: LanguageClient | undefined;
  private server: Server | undefined;
  private failures: FailureModel | undefined;
  private tests: KernelTests | undefined;
  private readonly views: vscode.Disposable[] = [];
  private readonly status: StatusItem;
  private readonly failuresView: FailuresView;
  private readonly launchesView: LaunchesView;
  private restarting: Promise<void> = Promise.resolve();

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.status = new StatusItem();
    this.failuresView = new FailuresView();
    this.launchesView = new LaunchesView();
  }

  /** Stop the running server, find one again and start it. Concurrent restarts are serialised. */
  restart(): Promise<void> {
    this.restarting = this.restarting.then(() => this.replace());
    return this.restarting;
  }

  async restartIfServerChanged(): Promise<void> {
    const found = await findServer();
    if (found?.program !== this.server?.program) {
      await this.restart();
    }
  }

  async dispose(): Promise<void> {
    await this.stop();
    this.status.dispose();
    this.failuresView.dispose();
    this.launchesView.dispose();
  }

  private async replace(): Promise<void> {
    await this.stop();
    void vscode.commands.executeCommand("setContext", "gpuemu.active", true);
    this.status.starting();
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
    client.onDidChangeState((event) => this.onStateChange(client, event.newState));
    try {
      await client.start();
    } catch (error) {
      this.log.error(`${this.server.program}: ${error}`); // the language client has shown the error
      this.status.failed(`${this.server.program} does not start`);
    }
  }

  private options(): LanguageClientOptions {
    return {
      documentSelector: [
        { scheme: "file", pattern: "**/*.{cu,cuh,hip,h,hpp,hh,hxx,inl,inc,cpp,cc,cxx,cu.in,ptx}" },
        { scheme: "file", language: "cuda-cpp" },
        { scheme: "file", language: "cuda" },
        { scheme: "file", pattern: "**/gpuemu.toml" },
        { scheme: "file", pattern: "**/*.py" },
        // Never saved: by language, as they have no name.
        { scheme: "untitled", language: "cuda-cpp" },
        { scheme: "untitled", language: "cuda" },
        { scheme: "untitled", language: "python" },
        { notebook: "jupyter-notebook", language: "python" },
      ],
      initializationOptions: { trusted: vscode.workspace.isTrusted, debugger: true },
      synchronize: { configurationSection: "gpuemu" },
      outputChannel: this.log,
      revealOutputChannelOn: RevealOutputChannelOn.Never,
      middleware: middleware({
        failures: () => this.failures,
        artifacts: () => this.views.find((each): each is Artifacts => each instanceof Artifacts),
        launches: () => this.launchesView.all,
      }),
    };
  }

  private onStateChange(client: LanguageClient, state: State): void {
    if (client !== this.client) {
      return; // a client that is being replaced
    }
    if (state === State.Running) {
      this.createViews(client);
    } else {
      this.disposeViews();
      if (state === State.Starting) {
        this.status.starting();
      }
    }
  }

  /** Create the views of a running server. */
  private createViews(client: LanguageClient): void {
    this.disposeViews();
    const failures = new FailureModel(client);
    const tests = new KernelTests(client, failures);
    this.failures = failures;
    this.tests = tests;
    const panels = new FailurePanels(failures, this.context.extensionUri);
    this.views.push(
      failures,
      tests,
      panels,
      this.status.follow(client, () => tests.onIdle()),
      this.failuresView.follow(failures),
      this.launchesView.follow(client),
      new Artifacts(client),
    );
    void vscode.commands.executeCommand("setContext", CONTEXT_RUNNING, true);
  }

  private disposeViews(): void {
    this.failures = undefined;
    this.tests = undefined;
    for (const each of this.views.splice(0)) {
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
    this.disposeViews();
  }
}
