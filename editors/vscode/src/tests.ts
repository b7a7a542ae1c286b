/**
 * The Test Explorer: files and their kernels.
 *
 * The server sends the tests and their states; VS Code draws the states in the gutter (queued, running, failed, passed,
 * and faded where stale). It counts every item that a run reports, in the header and in the badge. Only kernels are
 * items, so both count kernels; their failing cases are in the failures view. Both show the last run alone, so each run
 * ends with the known states of all other kernels.
 */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import type { FailureModel } from "./failureModel";
import { toRange } from "./positions";
import {
  type Failure,
  Method,
  type Test,
  type TestOutput,
  type TestState,
  type TestsChanged,
  type TestsEnded,
} from "./protocol";

/** The Python files with kernels, for the commands of the palette and of menus. */
const CONTEXT_PYTHON_FILES = "gpuemu.pythonFiles";

export class KernelTests implements vscode.Disposable {
  readonly controller = vscode.tests.createTestController("gpuemu", "GPU kernels");
  private readonly items = new Map<string, vscode.TestItem>();
  private readonly runs = new Map<string, ReportedRun>();
  private readonly states = new Map<string, TestState>();
  private readonly stale = new Set<string>();
  private saved: ReportedRun | undefined;
  private readonly parts: vscode.Disposable[];
  private lastRun = 0;

  constructor(
    private readonly client: LanguageClient,
    private readonly failures: FailureModel,
  ) {
    const { controller } = this;
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
      controller.createRunProfile("Debug", vscode.TestRunProfileKind.Debug, (request, token) =>
        this.debug(request, token),
      ),
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

  /** Number of kernels whose last state is a failure. */
  get failing(): number {
    return [...this.states.values()].filter(isFailure).length;
  }

  /** The server is idle: checks on save have ended. */
  onIdle(): void {
    this.complete(this.saved);
    this.saved = undefined;
  }

  dispose(): void {
    for (const id of [...this.runs.keys()]) {
      this.end(id);
    }
    this.saved?.run.end();
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
  private replace({ scope, tests: all }: TestsChanged): void {
    const tests = all.filter((test) => ["file", "answer", "kernel"].includes(test.kind));
    const wanted = new Set(tests.map((test) => test.id));
    const files = new Set(scope);
    for (const [id, item] of [...this.items]) {
      if (!wanted.has(id) && files.has(item.uri?.toString() ?? "")) {
        (item.parent?.children ?? this.controller.items).delete(id);
        this.items.delete(id);
        this.states.delete(id);
        this.stale.delete(id);
      }
    }
    for (const test of tests) {
      this.put(test); // the server sends parents before their children
    }
    for (const [kernel, dtypes] of groupByParent(all.filter((test) => test.kind === "dtype"))) {
      const item = this.items.get(kernel);
      if (item) {
        item.description = dtypes.length > 1 ? dtypes.map((test) => test.label).join(", ") : undefined;
      }
    }
    const paths = [...this.controller.items].map(([, item]) => item.uri?.fsPath ?? "");
    const python = paths.filter((each) => each.endsWith(".py"));
    void vscode.commands.executeCommand("setContext", CONTEXT_PYTHON_FILES, python);
    this.showStored(all);
  }

  /** Show kernels with stored failing cases as failed, if they were not checked yet: no state is sent for them. */
  private showStored(tests: readonly Test[]): void {
    const kernels = new Map(tests.filter((test) => test.kind === "dtype").map((test) => [test.id, test.parent]));
    let found = false;
    for (const test of tests) {
      const id = test.kind === "case" ? kernels.get(test.parent ?? "") : undefined;
      if (id && test.state && !this.states.has(id)) {
        const range = test.range ?? undefined;
        const message = test.message ?? undefined;
        this.states.set(id, { runId: null, id, state: test.state, message, uri: test.uri, range });
        found = true;
      }
    }
    if (found && this.runs.size === 0 && !this.saved) {
      this.complete(this.newRun(new vscode.TestRunRequest(), "stored"));
    }
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
    const reported = { run: this.controller.createTestRun(request), ids: new Set<string>() };
    const { run } = reported;
    this.runs.set(runId, reported);
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

  /** Debug the failing case of the first kernel that has any; check the kernels where none has. */
  private async debug(request: vscode.TestRunRequest, token: vscode.CancellationToken): Promise<void> {
    const chosen = request.include ?? [...this.items.values()];
    const kernels = chosen.flatMap((item) =>
      item.children.size > 0 ? [...item.children].map(([, one]) => one) : item,
    );
    const failure = this.failures.all.find((one) => kernels.some((item) => isOf(one, item)));
    if (failure) {
      await vscode.commands.executeCommand("gpuemu.debug", failure.uri, failure.id, failure.kernel, failure.dtype);
      return;
    }
    await this.run(request, false, token);
    void vscode.window.showInformationMessage(
      "gpuemu: there is no failing case to debug; the kernels are checked now.",
    );
  }

  private end(runId: string): void {
    this.complete(this.runs.get(runId));
    this.runs.delete(runId);
  }

  private newRun(request: vscode.TestRunRequest, name: string): ReportedRun {
    return { run: this.controller.createTestRun(request, name, false), ids: new Set() };
  }

  /** End a run with the known states of the kernels that it has not reported. */
  private complete(reported: ReportedRun | undefined): void {
    if (!reported) {
      return;
    }
    for (const [id, state] of this.states) {
      const item = this.items.get(id);
      if (item && !reported.ids.has(id)) {
        report(reported.run, item, state);
      }
    }
    reported.run.end();
    const stale = [...this.stale].flatMap((id) => this.items.get(id) ?? []);
    if (stale.length > 0) {
      this.controller.invalidateTestResults(stale);
    }
  }

  // ---- notifications of the server -----------------------------------------------------------------------------------

  private setState(update: TestState): void {
    const item = this.items.get(update.id);
    if (!item) {
      return;
    }
    if (update.state === "stale") {
      this.stale.add(update.id);
      this.controller.invalidateTestResults(item);
      return;
    }
    if (isResult(update)) {
      this.states.set(update.id, update);
      this.stale.delete(update.id);
    }
    if (update.runId === null) {
      this.saved ??= this.newRun(new vscode.TestRunRequest(), "saved");
    }
    const reported = update.runId === null ? this.saved : this.runs.get(update.runId);
    if (reported) {
      // There is none after a cancellation.
      reported.ids.add(update.id);
      report(reported.run, item, update);
    }
  }

  private appendOutput(output: TestOutput): void {
    const item = output.id === undefined ? undefined : this.items.get(output.id);
    this.runs.get(output.runId)?.run.appendOutput(output.text.replace(/\r?\n/g, "\r\n"), undefined, item);
  }
}

/** A run, and the kernels whose state it has reported. The run of checks on save lasts until the server is idle. */
interface ReportedRun {
  run: vscode.TestRun;
  ids: Set<string>;
}

function isOf(failure: Failure, item: vscode.TestItem): boolean {
  return failure.uri === item.uri?.toString() && failure.kernel === item.label;
}

function isFailure({ state }: TestState): boolean {
  return state === "failed" || state === "errored";
}

function isResult(update: TestState): boolean {
  return update.state === "passed" || isFailure(update);
}

function groupByParent(tests: readonly Test[]): Map<string, Test[]> {
  const groups = new Map<string, Test[]>();
  for (const test of tests) {
    groups.set(test.parent ?? "", [...(groups.get(test.parent ?? "") ?? []), test]);
  }
  return groups;
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
