/** Messages between the panel's page and the extension host. */

import type { FailureDetail } from "../protocol";

export type ToPage = { kind: "show"; detail: FailureDetail } | { kind: "gone" };
export type ToHost =
  | { kind: "ready" }
  | { kind: "goToLine" }
  | { kind: "reproduce" }
  | { kind: "minimize" }
  | { kind: "copy" };
