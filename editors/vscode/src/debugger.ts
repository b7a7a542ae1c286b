/** Debug sessions about failing cases: the adapter, launches without arguments, and the thread that is looked at. */

import * as path from "node:path";
import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { describeCase, type FailureModel } from "./failureModel";
import { LanesView } from "./lanesView";
import { type Failure, Method } from "./protocol";
import { findServer } from "./server";

export const TYPE = "gpuemu";

/** Files with kernels. */
const KERNELS = [{ pattern: "**/*.{cu,cuh,hip,h,hpp}" }, { pattern: "**/*.py" }];
const NAME = /(?<![\w.>])[A-Za-z_]\w*(?![\w(])/g;
/** Lines above the stop whose variables have values next to them. */
const LINES_ABOVE = 40;

/** Register everything that a debug session needs. */
export function registerDebugger(
  failures: () => FailureModel | undefined,
  client: () => LanguageClient | undefined,
): vscode.Disposable {
  return vscode.Disposable.from(
    new LanesView(TYPE),
    vscode.debug.registerDebugAdapterDescriptorFactory(TYPE, { createDebugAdapterDescriptor: () => adapter(client()) }),
    vscode.debug.registerDebugConfigurationProvider(TYPE, {
      resolveDebugConfiguration: (folder, configuration) => completed(folder, configuration, failures()),
    }),
    vscode.commands.registerCommand("gpuemu.focusThread", focusThread),
    vscode.languages.registerInlineValuesProvider(KERNELS, { provideInlineValues: inlineValues }),
  );
}

/** Start a session with a launch configuration of the server. */
export async function startDebugging(configuration: unknown): Promise<void> {
  const launch = configuration as vscode.DebugConfiguration;
  const folder = vscode.workspace.getWorkspaceFolder(vscode.Uri.file(String(launch.root)));
  await vscode.debug.startDebugging(folder, launch);
}

/** The adapter is one of the running server, which stops sooner, else the server's program. */
async function adapter(client: LanguageClient | undefined): Promise<vscode.DebugAdapterDescriptor> {
  if (!vscode.workspace.isTrusted) {
    throw new Error("a case is executed when it is debugged, and this folder is not trusted");
  }
  try {
    const answer = await client?.sendRequest<{ socket: string }>(Method.debugAdapter, {});
    if (answer) {
      return new vscode.DebugAdapterNamedPipeServer(answer.socket);
    }
  } catch {
    // an older server without this request
  }
  const server = await findServer();
  if (!server) {
    throw new Error("gpuemu-lsp was not found; run the command 'gpuemu: Install Server'.");
  }
  return new vscode.DebugAdapterExecutable(server.program, ["--debug-adapter"]);
}

/** Return a configuration with a case: the user's choice where it names none. */
async function completed(
  folder: vscode.WorkspaceFolder | undefined,
  configuration: vscode.DebugConfiguration,
  failures: FailureModel | undefined,
): Promise<vscode.DebugConfiguration | undefined> {
  if (configuration.case || configuration.dims || configuration.launch) {
    const root =
      folder && configuration.root ? path.resolve(folder.uri.fsPath, configuration.root) : configuration.root;
    return { ...configuration, root: root ?? folder?.uri.fsPath };
  }
  const failure = await choose(failures?.all ?? []);
  if (failure) {
    // The server knows the project's folder.
    await vscode.commands.executeCommand("gpuemu.debug", failure.uri, failure.id, failure.kernel, failure.dtype);
  }
  return undefined;
}

async function choose(failures: readonly Failure[]): Promise<Failure | undefined> {
  if (failures.length === 0) {
    void vscode.window.showInformationMessage("gpuemu: there are no failing cases to debug.");
    return undefined;
  }
  const rows = failures.map((failure) => ({
    label: `${failure.kernel}: ${failure.rule}`,
    description: describeCase(failure),
    detail: failure.message,
    failure,
  }));
  const row = await vscode.window.showQuickPick(rows, { placeHolder: "Failing case to debug" });
  return row?.failure;
}

/** The variables of the lines above the stop, which VS Code looks up in the scopes. */
function inlineValues(
  document: vscode.TextDocument,
  viewPort: vscode.Range,
  { stoppedLocation }: vscode.InlineValueContext,
): vscode.InlineValue[] {
  if (vscode.debug.activeDebugSession?.type !== TYPE) {
    return [];
  }
  const last = stoppedLocation.end.line;
  const found: vscode.InlineValue[] = [];
  for (let line = Math.max(viewPort.start.line, last - LINES_ABOVE); line <= last; line++) {
    for (const { index, name } of namesIn(document.lineAt(line).text)) {
      found.push(new vscode.InlineValueVariableLookup(new vscode.Range(line, index, line, index + name.length), name));
    }
  }
  return found;
}

/** Return the names in a line of code and where they are, each once; those in comments, strings and calls are left out. */
export function namesIn(text: string): { index: number; name: string }[] {
  const code =
    text.replace(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, (part) => " ".repeat(part.length)).split(/\/\/|#/, 1)[0] ?? "";
  const names = new Map<string, number>();
  for (const match of code.matchAll(NAME)) {
    if (!names.has(match[0])) {
      names.set(match[0], match.index);
    }
  }
  return [...names].map(([name, index]) => ({ index, name }));
}

/** Ask for a thread, or a block and a thread, and look at it. */
async function focusThread(): Promise<void> {
  const session = vscode.debug.activeDebugSession;
  if (session?.type !== TYPE) {
    return;
  }
  const text = await vscode.window.showInputBox({
    title: "Look at another thread",
    prompt: "A thread of the block, by number or index; with a block of the grid before a colon",
    placeHolder: "37    or    5, 1, 0    or    block 2: 37",
    validateInput: (typed) => (placeOf(typed) ? undefined : "numbers, such as 37, or 5, 1, 0, or 2: 37"),
  });
  const place = text && placeOf(text);
  if (place) {
    try {
      await session.customRequest("gpuemu/focus", place);
    } catch (error) {
      void vscode.window.showErrorMessage(`gpuemu: ${error instanceof Error ? error.message : error}`);
    }
  }
}

/** Return the thread and block that a text names, undefined if it names none. */
export function placeOf(text: string): { thread?: number[]; block?: number[] } | undefined {
  const [last, before, ...more] = text.split(":").reverse();
  const numbers = (part: string | undefined) => (part?.match(/\d+/g) ?? []).map(Number);
  const isIndex = (part: string | undefined) =>
    part === undefined || /^\s*(?:block|thread)?\s*\(?\s*\d+(?:[\s,]+\d+){0,2}\s*\)?\s*$/.test(part);
  if (more.length > 0 || !isIndex(last) || !isIndex(before)) {
    return undefined;
  }
  return before === undefined ? { thread: numbers(last) } : { thread: numbers(last), block: numbers(before) };
}
