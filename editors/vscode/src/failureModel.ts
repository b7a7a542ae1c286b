/** The failing cases the server knows, fetched again whenever it says that they have changed. */

import * as vscode from "vscode";
import type { LanguageClient } from "vscode-languageclient/node";
import { type CaseName, type Failure, type FailureDetail, Method } from "./protocol";

export class FailureModel implements vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<void>();
  readonly onChanged = this.changed.event;
  private list: readonly Failure[] = [];
  private asked = 0;
  private readonly listener: vscode.Disposable;

  constructor(private readonly client: LanguageClient) {
    this.listener = client.onNotification(Method.failuresChanged, () => this.refresh());
    void this.refresh();
  }

  get all(): readonly Failure[] {
    return this.list;
  }

  find({ uri, id, kernel, dtype }: CaseName): Failure | undefined {
    const alike = this.list.filter((failure) => failure.id === id);
    return (
      alike.find((failure) => failure.kernel === kernel && failure.dtype === dtype) ??
      alike.find((failure) => failure.uri === uri)
    );
  }

  /** Ask what a panel shows; undefined where the case is no longer stored. */
  async detail(wanted: CaseName): Promise<FailureDetail | undefined> {
    try {
      return (await this.client.sendRequest<FailureDetail | null>(Method.failure, wanted)) ?? undefined;
    } catch {
      return undefined;
    }
  }

  dispose(): void {
    this.asked = -1;
    this.listener.dispose();
    this.changed.dispose();
  }

  private async refresh(): Promise<void> {
    const question = ++this.asked;
    let failures: Failure[];
    try {
      ({ failures } = await this.client.sendRequest<{ failures: Failure[] }>(Method.failures, {}));
    } catch {
      failures = []; // an older server without this request
    }
    if (question === this.asked) {
      // A later question has a later answer.
      this.list = failures;
      this.changed.fire();
    }
  }
}

/** Say which case this is, briefly: its dtype and sizes. */
export function describeCase(failure: Failure): string {
  const dims = Object.entries(failure.dims).map(([name, size]) => `${name}=${size}`);
  return [failure.dtype, ...dims].filter(Boolean).join(" ");
}
