/** The stored failing cases, fetched again when the server notifies of a change. */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { type CaseName, type Failure, type FailureDetail, Method } from "./protocol";

export class FailureModel implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onChanged = this.changed.event;
  private list: readonly Failure[] = [];
  private requests = 0;
  private readonly listener: vscode.Disposable;

  constructor(private readonly client: LanguageClient) {
    this.listener = client.onNotification(Method.failuresChanged, () => this.refresh());
    void this.refresh();
  }

  get all(): readonly Failure[] {
    return this.list;
  }

  find({ uri, id, kernel, dtype }: CaseName): Failure | undefined {
    const sameId = this.list.filter((failure) => failure.id === id);
    return (
      sameId.find((failure) => failure.kernel === kernel && failure.dtype === dtype) ??
      sameId.find((failure) => failure.uri === uri)
    );
  }

  /** Fetch the details of a case for the failure panel; undefined if it is no longer stored. */
  async detail(wanted: CaseName): Promise<FailureDetail | undefined> {
    try {
      return (await this.client.sendRequest<FailureDetail | null>(Method.failure, wanted)) ?? undefined;
    } catch {
      return undefined;
    }
  }

  dispose(): void {
    this.requests = -1;
    this.listener.dispose();
    this.changed.dispose();
  }

  private async refresh(): Promise<void> {
    const request = ++this.requests;
    let failures: Failure[];
    try {
      ({ failures } = await this.client.sendRequest<{ failures: Failure[] }>(Method.failures, {}));
    } catch {
      failures = []; // an older server without this request
    }
    if (request === this.requests) {
      // Only the latest request counts: responses may arrive out of order.
      this.list = failures;
      this.changed.fire();
    }
  }
}

/** Return a short description of a case: its dtype and sizes. */
export function describeCase(failure: Failure): string {
  return [failure.dtype, sizesOf(failure)].filter(Boolean).join(", ") || "case";
}

/** Return the sizes of a case. */
export function sizesOf(failure: Failure): string {
  return Object.entries(failure.dims)
    .map(([name, size]) => `${name}=${size}`)
    .join(", ");
}
