/**
 * The server's commands in the command palette and in views.
 *
 * The language client registers every command that the server declares, and no command may be registered twice. So the
 * middleware adds the arguments that an invocation from the palette lacks.
 */

import * as vscode from "vscode";
import type { Middleware } from "vscode-languageclient/node";
import type { Artifacts } from "./artifacts";
import { attendsTo } from "./attention";
import { startDebugging } from "./debugger";
import { describeCase, type FailureModel } from "./failureModel";
import { ofLaunch } from "./launchesView";
import type { ArtifactForm, CaseName, Failure, RecordedProgram } from "./protocol";

/** Services that exist only while a server runs. */
export interface CommandContext {
  failures(): FailureModel | undefined;
  artifacts(): Artifacts | undefined;
  launches(): readonly RecordedProgram[];
}

export function middleware(context: CommandContext): Middleware {
  return {
    async executeCommand(command, args, next) {
      switch (command) {
        case "gpuemu.check":
        case "gpuemu.fuzz":
        case "gpuemu.judge":
        case "gpuemu.run": {
          const wanted = ofFile(args);
          return wanted && next(command, wanted);
        }
        case "gpuemu.reproduce":
        case "gpuemu.minimize": {
          const wanted = await ofCase(args, context.failures());
          return wanted && next(command, argumentsOf(wanted));
        }
        case "gpuemu.debug": {
          const wanted = await ofCase(args, context.failures());
          return wanted && startDebugging(await next(command, argumentsOf(wanted)));
        }
        case "gpuemu.debugLaunch": {
          const wanted = await ofLaunch(args, context.launches());
          return wanted && startDebugging(await next(command, wanted));
        }
        case "gpuemu.showArtifact": {
          const [uri, kernel, form] = args as [string, string, ArtifactForm];
          return context.artifacts()?.show(uri, kernel, form);
        }
        case "gpuemu.debugInfo":
          return showMarkdown(await next(command, args));
        default:
          return next(command, args);
      }
    },
    provideHover: (document, position, token, next) => (attendsTo(document) ? next(document, position, token) : null),
    provideCodeLenses: (document, token, next) => (attendsTo(document) ? next(document, token) : []),
    provideInlayHints: (document, range, token, next) => (attendsTo(document) ? next(document, range, token) : []),
    provideDocumentSymbols: (document, token, next) => (attendsTo(document) ? next(document, token) : []),
    provideDefinition: (document, position, token, next) =>
      attendsTo(document) ? next(document, position, token) : null,
    provideReferences: (document, position, options, token, next) =>
      attendsTo(document) ? next(document, position, options, token) : [],
    // Of gpuemu.toml and CUDA only: typing in Python never waits for this server.
    provideCompletionItem: (document, position, how, token, next) =>
      isPython(document) ? [] : next(document, position, how, token),
    provideFoldingRanges: (document, how, token, next) => (isPython(document) ? [] : next(document, how, token)),
    provideDocumentLinks: (document, token, next) => (isPython(document) ? [] : next(document, token)),
    async provideCodeActions(document, range, actionContext, token, next) {
      if (!attendsTo(document)) {
        return [];
      }
      const actions = (await next(document, range, actionContext, token)) ?? [];
      return [
        ...actions,
        ...actionContext.diagnostics.flatMap((each) => showFailure(document.uri, each, context.failures())),
      ];
    },
  };
}

function isPython(document: vscode.TextDocument): boolean {
  return document.languageId === "python";
}

/** Return the arguments of a command on a file: those given, else the active editor's file. */
function ofFile(args: unknown[]): unknown[] | undefined {
  const [first] = args;
  if (typeof first === "string") {
    return args;
  }
  const uri = first instanceof vscode.Uri ? first : vscode.window.activeTextEditor?.document.uri;
  return uri && [uri.toString()];
}

/** Return the failing case a command applies to: the one given, a row of the failures view, else the user's choice. */
export async function ofCase(args: unknown[], failures: FailureModel | undefined): Promise<CaseName | undefined> {
  const [first, second, kernel, dtype] = args;
  if (typeof first === "string" && typeof second === "string") {
    return { uri: first, id: second, kernel: text(kernel), dtype: text(dtype) };
  }
  const failure = isFailure(first) ? first : await choose(failures?.all ?? []);
  return failure && { uri: failure.uri, id: failure.id, kernel: failure.kernel, dtype: failure.dtype };
}

/** Return a case as command arguments. */
export function argumentsOf({ uri, id, kernel, dtype }: CaseName): string[] {
  return [uri, id, kernel, dtype].filter((each) => each !== undefined);
}

function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

async function choose(failures: readonly Failure[]): Promise<Failure | undefined> {
  if (failures.length === 0) {
    void vscode.window.showInformationMessage("gpuemu: there are no failing cases.");
    return undefined;
  }
  const rows = failures.map((failure) => ({
    label: `${failure.kernel}: ${failure.rule}`,
    description: describeCase(failure),
    detail: failure.message,
    failure,
  }));
  const row = rows.length === 1 ? rows[0] : await vscode.window.showQuickPick(rows, { placeHolder: "Failing case" });
  return row?.failure;
}

/** Code action that opens the failure panel: a view of this client, which the server cannot offer. */
function showFailure(
  uri: vscode.Uri,
  diagnostic: vscode.Diagnostic & { data?: Partial<Record<"case" | "kernel" | "dtype", string | null>> },
  failures: FailureModel | undefined,
): vscode.CodeAction[] {
  const { case: id, kernel, dtype } = diagnostic.data ?? {};
  const wanted = id ? { uri: uri.toString(), id, kernel: text(kernel), dtype: text(dtype) } : undefined;
  const failure = wanted && failures?.find(wanted);
  if (diagnostic.source !== "gpuemu" || !failure) {
    return [];
  }
  const action = new vscode.CodeAction("Show failure", vscode.CodeActionKind.QuickFix);
  action.diagnostics = [diagnostic];
  action.command = {
    command: "gpuemu.showFailure",
    title: action.title,
    arguments: argumentsOf(failure),
  };
  return [action];
}

async function showMarkdown(text: unknown): Promise<void> {
  if (typeof text === "string") {
    const document = await vscode.workspace.openTextDocument({ language: "markdown", content: text });
    await vscode.window.showTextDocument(document);
  }
}

function isFailure(value: unknown): value is Failure {
  return typeof value === "object" && value !== null && "id" in value && "rule" in value && "uri" in value;
}
