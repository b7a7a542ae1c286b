/**
 * The Test Explorer: file, kernel, dtype, failing case.
 *
 * The server sends the tests and their states; VS Code draws the states in the gutter (queued, running, failed, passed,
 * and faded where stale).
 */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { toRange } from "./positions";
import { Method, type Test, type TestOutput, type TestState, type TestsChanged, type TestsEnded } from "./protocol";

export class KernelTests implements vscode.Disposable {
  readonly controller = vscode.tests.createTestController("gpuemu", "GPU kernels");
  private readonly items = new Map<string, vscode.TestItem>();
  private readonly runs = new Map<string, vscode.TestRun>();
  private readonly onSave: SaveRun;
  private readonly parts: vscode.Disposable[];
  private lastRun = 0;

  constructor(private readonly client: LanguageClient) {
    const { controller } = this;
    this.onSave = new SaveRun(controller);
    const profile = (label: string, deep: boolean) =>
      controller.createRunProfile(
        label,
        vscode.TestRunProfileKind.Run,
        (request, token) => this.handle(request, deep, token),
        !deep,
        undefined,
        !deep,
      );
    this.parts = [
      profile("Check", false),
      profile("Deep Check", true),
      client.onNotification(Method.testsChanged, (change: TestsChanged) => this.replace(change)),
      client.onNotification(Method.testState, (state: TestState) => this.setState(state)),
      client.onNotification(Method.testOutput, (output: TestOutput) => this.appendOutput(output)),
      client.onNotification(Method.testsEnded, (ended: TestsEnded) => this.end(ended.runId)),
      controller,
    ];
    controller.resolveHandler = (item) => (item ? Promise.resolve() : this.discover());
    controller.refreshHandler = () => this.discover();
    void this.discover();
  }

  /** Return a test's item, for the extension's own tests. */
  item(id: string): vscode.TestItem | undefined {
    return this.items.get(id);
  }

  /** Number of runs started by the user that have not ended. */
  get running(): number {
    return this.runs.size;
  }

  /** The server is idle: checks on save have ended. */
  onIdle(): void {
    this.onSave.end();
  }

  dispose(): void {
    for (const id of [...this.runs.keys()]) {
      this.end(id);
    }
    this.onSave.end();
    for (const part of this.parts) {
      part.dispose();
    }
  }

  // ---- discovery -----------------------------------------------------------------------------------------------------

  private async discover(): Promise<void> {
    try {
      const { tests } = await this.client.sendRequest<{ tests: Test[] }>(Method.discoverTests, {});
      this.replace({ scope: [...new Set([...this.items.values()].map((item) => item.uri?.toString() ?? ""))], tests });
    } catch {
      // an older server without this request
    }
  }

  /** Replace the items of some files. Items that remain keep their state. */
  private replace({ scope, tests }: TestsChanged): void {
    const wanted = new Set(tests.map((test) => test.id));
    const files = new Set(scope);
    for (const [id, item] of [...this.items]) {
      if (!wanted.has(id) && files.has(item.uri?.toString() ?? "")) {
        (item.parent?.children ?? this.controller.items).delete(id);
        this.items.delete(id);
      }
    }
    const failing: [vscode.TestItem, TestState][] = [];
    for (const test of tests) {
      const isNew = !this.items.has(test.id);
      const item = this.put(test); // the server sends parents before their children
      if (isNew && test.state) {
        failing.push([item, { runId: null, id: test.id, state: test.state, message: test.message ?? undefined }]);
      }
    }
    this.showStored(failing);
  }

  /** Show the state of stored cases that were found by an earlier check: no state is sent for them. */
  private showStored(failing: readonly [vscode.TestItem, TestState][]): void {
    if (failing.length === 0) {
      return;
    }
    const run = this.controller.createTestRun(new vscode.TestRunRequest(), "stored", false);
    for (const [item, state] of failing) {
      report(run, item, state);
    }
    run.end();
  }

  private put(test: Test): vscode.TestItem {
    let item = this.items.get(test.id);
    if (!item) {
      item = this.controller.createTestItem(test.id, test.label, vscode.Uri.parse(test.uri));
      this.items.set(test.id, item);
      const parent = test.parent === null ? undefined : this.items.get(test.parent);
      (parent?.children ?? this.controller.items).add(item);
    }
    item.label = test.label;
    item.range = test.range ? toRange(test.range) : undefined;
    item.sortText = `${test.range?.start.line ?? 0}`.padStart(7, "0") + test.label;
    return item;
  }

  // ---- runs ----------------------------------------------------------------------------------------------------------

  private async handle(request: vscode.TestRunRequest, deep: boolean, token: vscode.CancellationToken): Promise<void> {
    if (!request.continuous) {
      await this.run(request, deep, token);
      return;
    }
    // The server checks on save by itself, unless the user has turned that off: then a continuous run does it.
    const saves = vscode.workspace.onDidSaveTextDocument(async (document) => {
      const manual = vscode.workspace.getConfiguration("gpuemu").get("checkOn") === "manual";
      if (manual && this.includes(request, document.uri)) {
        await this.run(request, deep, token);
      }
    });
    token.onCancellationRequested(() => saves.dispose());
  }

  private includes(request: vscode.TestRunRequest, uri: vscode.Uri): boolean {
    const included = request.include ?? [...this.items.values()];
    return included.some((item) => item.uri?.toString() === uri.toString());
  }

  private async run(request: vscode.TestRunRequest, deep: boolean, token: vscode.CancellationToken): Promise<void> {
    const runId = `run-${++this.lastRun}`;
    const run = this.controller.createTestRun(request);
    this.runs.set(runId, run);
    const cancel = () => {
      void this.client.sendRequest(Method.abortTests, { runId });
      this.end(runId); // at once, without waiting for the workers
    };
    token.onCancellationRequested(cancel);
    run.token.onCancellationRequested(cancel);
    try {
      await this.client.sendRequest(Method.runTests, {
        runId,
        include: request.include?.map((item) => item.id) ?? null,
        exclude: request.exclude?.map((item) => item.id) ?? [],
        deep,
      });
    } catch (error) {
      run.appendOutput(`${error instanceof Error ? error.message : error}\r\n`);
      this.end(runId);
    }
  }

  private end(runId: string): void {
    this.runs.get(runId)?.end();
    this.runs.delete(runId);
  }

  // ---- notifications of the server -----------------------------------------------------------------------------------

  private setState(update: TestState): void {
    const item = this.items.get(update.id);
    if (!item) {
      return;
    }
    if (update.state === "stale") {
      this.controller.invalidateTestResults(item);
    } else if (update.runId === null) {
      this.onSave.report(item, update);
    } else {
      const run = this.runs.get(update.runId);
      if (run) {
        report(run, item, update); // no run: it was cancelled
      }
    }
  }

  private appendOutput(output: TestOutput): void {
    const item = output.id === undefined ? undefined : this.items.get(output.id);
    this.runs.get(output.runId)?.appendOutput(output.text.replace(/\r?\n/g, "\r\n"), undefined, item);
  }
}

/** The run that shows checks on save. It lasts until the server is idle, so that it counts all their kernels. */
class SaveRun {
  private run: vscode.TestRun | undefined;

  constructor(private readonly controller: vscode.TestController) {}

  report(item: vscode.TestItem, update: TestState): void {
    this.run ??= this.controller.createTestRun(new vscode.TestRunRequest(), "saved", false);
    report(this.run, item, update);
  }

  end(): void {
    this.run?.end();
    this.run = undefined;
  }
}

function report(run: vscode.TestRun, item: vscode.TestItem, update: TestState): void {
  const { state, duration } = update;
  if (state === "failed" || state === "errored") {
    run[state](item, messageOf(item, update), duration);
  } else if (state === "passed") {
    run.passed(item, duration);
  } else if (state !== "stale") {
    run[state](item);
  }
}

function messageOf(item: vscode.TestItem, update: TestState): vscode.TestMessage {
  const text = update.message ?? update.state;
  const message =
    update.expected !== undefined && update.actual !== undefined
      ? vscode.TestMessage.diff(text, update.expected, update.actual)
      : new vscode.TestMessage(text);
  const uri = update.uri ? vscode.Uri.parse(update.uri) : item.uri;
  const range = update.range ? toRange(update.range) : item.range;
  if (uri && range) {
    message.location = new vscode.Location(uri, range);
  }
  return message;
}
