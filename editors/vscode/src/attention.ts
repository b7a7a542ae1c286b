/**
 * The documents that the server attends to: CUDA, gpuemu.toml, and Python files with kernels.
 *
 * Python opens the extension in every Python workspace. There it only listens, and starts no server, until a file with
 * kernels is opened or saved.
 */

import * as vscode from "vscode";

/** The calls that compile CUDA code from a string (engine/source/python in the server). */
const CUDA_STRING = /\b(?:RawKernel|RawModule|load_inline|SourceModule)\b/;
const TRITON = /^\s*(?:import|from)\s+triton\b/m;
const TRITON_KERNEL = /@\s*(?:triton\s*\.\s*)?jit\b/;

const known = new WeakMap<vscode.TextDocument, { version: number; found: boolean }>();

/** Return whether the text of a Python document may have kernels; the server decides. */
export function mayHaveKernels(document: vscode.TextDocument): boolean {
  let entry = known.get(document);
  if (entry?.version !== document.version) {
    const text = document.getText();
    const found = CUDA_STRING.test(text) || (TRITON_KERNEL.test(text) && TRITON.test(text));
    entry = { version: document.version, found };
    known.set(document, entry);
  }
  return entry.found;
}

/** Return whether a document is a reason to start the server. */
export function needsServer(document: vscode.TextDocument): boolean {
  if (document.uri.scheme !== "file") {
    return false;
  }
  if (document.languageId === "python") {
    return mayHaveKernels(document);
  }
  return document.languageId.startsWith("cuda") || /\.(cuh?|hip|ptx)$|(^|\/)gpuemu\.toml$/.test(document.uri.path);
}

/** Return whether requests about a document are sent: for Python without kernels or diagnostics there is no answer. */
export function attendsTo(document: vscode.TextDocument): boolean {
  if (document.languageId !== "python" || mayHaveKernels(document)) {
    return true;
  }
  return vscode.languages.getDiagnostics(document.uri).some((each) => each.source === "gpuemu");
}

/** Call back once, as soon as the workspace or an open document needs the server. */
export async function whenNeeded(begin: () => Promise<void>): Promise<vscode.Disposable> {
  const listeners: vscode.Disposable[] = [];
  const ours = vscode.Disposable.from({ dispose: () => listeners.splice(0).forEach((each) => void each.dispose()) });
  let begun = false;
  const once = async () => {
    if (!begun) {
      begun = true;
      ours.dispose();
      await begin();
    }
  };
  const consider = (document: vscode.TextDocument) => void (needsServer(document) && once());
  const search = async () => void ((await hasConfiguration()) && (await once()));
  listeners.push(
    vscode.workspace.onDidOpenTextDocument(consider),
    vscode.workspace.onDidSaveTextDocument(consider),
    vscode.workspace.onDidChangeWorkspaceFolders(search),
  );
  if (vscode.workspace.textDocuments.some(needsServer)) {
    await once();
  } else {
    await search();
  }
  return ours;
}

async function hasConfiguration(): Promise<boolean> {
  return (await vscode.workspace.findFiles("**/gpuemu.toml", undefined, 1)).length > 0;
}
