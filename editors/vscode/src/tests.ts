/**
 * The Test Explorer: file, kernel, dtype, failing case.
 *
 * The server says which tests there are and in which state; VS Code itself draws the states in the gutter (queued, running,
 * failed, passed, and faded where stale).
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
      client.onNotification(Method.testsChanged, (news: TestsChanged) => this.replace(news)),
      client.onNotification(Method.testState, (news: TestState) => this.state(news)),
      client.onNotification(Method.testOutput, (news: TestOutput) => this.output(news)),
      client.onNotification(Method.testsEnded, (news: TestsEnded) => this.end(news.runId)),
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

  /** How many runs that the user asked for have not ended. */
  get running(): number {
    return this.runs.size;
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

  // ---- which tests there are -----------------------------------------------------------------------------------------

  private async discover(): Promise<void> {
    try {
      const { tests } = await this.client.sendRequest<{ tests: Test[] }>(Method.discoverTests, {});
      this.replace({ scope: [...new Set([...this.items.values()].map((item) => item.uri?.toString() ?? ""))], tests });
    } catch {
      // an older server, without tests
    }
  }

  /** Take the tests of some files as all there are of them now. Items that stay keep their state. */
  private replace({ scope, tests }: TestsChanged): void {
    const wanted = new Set(tests.map((test) => test.id));
    const files = new Set(scope);
    for (const [id, item] of [...this.items]) {
      if (!wanted.has(id) && files.has(item.uri?.toString() ?? "")) {
        (item.parent?.children ?? this.controller.items).delete(id);
        this.items.delete(id);
      }
    }
    for (const test of tests) {
      this.put(test); // parents come before their children
    }
  }

  private put(test: Test): void {
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
  }

  // ---- running them --------------------------------------------------------------------------------------------------

  private async handle(request: vscode.TestRunRequest, deep: boolean, token: vscode.CancellationToken): Promise<void> {
    if (!request.continuous) {
      await this.run(request, deep, token);
      return;
    }
    // Saves are checked anyway, and shown, unless the user has turned that off: then this is what turns it on for a while.
    const saves = vscode.workspace.onDidSaveTextDocument(async (document) => {
      const manual = vscode.workspace.getConfiguration("gpuemu").get("checkOn") === "manual";
      if (manual && this.concerns(request, document.uri)) {
        await this.run(request, deep, token);
      }
    });
    token.onCancellationRequested(() => saves.dispose());
  }

  private concerns(request: vscode.TestRunRequest, uri: vscode.Uri): boolean {
    const included = request.include ?? [...this.items.values()];
    return included.some((item) => item.uri?.toString() === uri.toString());
  }

  private async run(request: vscode.TestRunRequest, deep: boolean, token: vscode.CancellationToken): Promise<void> {
    const runId = `run-${++this.lastRun}`;
    const run = this.controller.createTestRun(request);
    this.runs.set(runId, run);
    const cancel = () => {
      void this.client.sendRequest(Method.abortTests, { runId });
      this.end(runId); // at once: the user has been heard, whatever the workers still have to do
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

  // ---- what comes back -----------------------------------------------------------------------------------------------

  private state(news: TestState): void {
    const item = this.items.get(news.id);
    if (!item) {
      return;
    }
    if (news.state === "stale") {
      this.controller.invalidateTestResults(item);
    } else if (news.runId === null) {
      this.onSave.tell(item, news);
    } else {
      const run = this.runs.get(news.runId);
      if (run) {
        tell(run, item, news); // else it is of a run that was cancelled
      }
    }
  }

  private output(news: TestOutput): void {
    const item = news.id === undefined ? undefined : this.items.get(news.id);
    this.runs.get(news.runId)?.appendOutput(news.text.replace(/\r?\n/g, "\r\n"), undefined, item);
  }
}

/** The run that shows what saves bring about: it lasts while any of its tests is waiting or running. */
class SaveRun {
  private run: vscode.TestRun | undefined;
  private readonly open = new Set<string>();

  constructor(private readonly controller: vscode.TestController) {}

  tell(item: vscode.TestItem, news: TestState): void {
    this.run ??= this.controller.createTestRun(new vscode.TestRunRequest(), "saved", false);
    tell(this.run, item, news);
    if (news.state === "enqueued" || news.state === "started") {
      this.open.add(news.id);
    } else {
      this.open.delete(news.id);
      if (this.open.size === 0) {
        this.end();
      }
    }
  }

  end(): void {
    this.run?.end();
    this.run = undefined;
    this.open.clear();
  }
}

function tell(run: vscode.TestRun, item: vscode.TestItem, news: TestState): void {
  const { state, duration } = news;
  if (state === "failed" || state === "errored") {
    run[state](item, messageOf(item, news), duration);
  } else if (state === "passed") {
    run.passed(item, duration);
  } else if (state !== "stale") {
    run[state](item);
  }
}

function messageOf(item: vscode.TestItem, news: TestState): vscode.TestMessage {
  const text = news.message ?? news.state;
  const message =
    news.expected !== undefined && news.actual !== undefined
      ? vscode.TestMessage.diff(text, news.expected, news.actual)
      : new vscode.TestMessage(text);
  const uri = news.uri ? vscode.Uri.parse(news.uri) : item.uri;
  const range = news.range ? toRange(news.range) : item.range;
  if (uri && range) {
    message.location = new vscode.Location(uri, range);
  }
  return message;
}
