/** Types of the custom protocol, docs/protocol.md. Positions are 0-based. */

import type * as lsp from "vscode-languageclient/node";

export type Health = "ok" | "warning" | "error";

export interface ServerStatus {
  health: Health;
  quiescent: boolean;
  message?: string | null;
  /** Number of kernels whose last check found an error. */
  failing?: number;
  /** Nothing of the workspace is executed, because it is not trusted. */
  restricted?: boolean;
  /** Changes of files start no checks. */
  paused?: boolean;
  executor?: string | null;
  versions?: Record<string, string>;
}

export interface Failure {
  id: string;
  kernel: string;
  dtype: string;
  dims: Record<string, number>;
  rule: string;
  message: string;
  uri: string;
  range: lsp.Range;
  minimized: boolean;
}

/** Identity of a case. Its id is a seed, which cases of several kernels and dtypes may share. */
export interface CaseName {
  uri: string;
  id: string;
  kernel?: string;
  dtype?: string;
}

/** A number. JSON has neither NaN nor infinities: they are strings. */
export type Value = number | "NaN" | "Infinity" | "-Infinity";

export interface WrongElement {
  buffer: string;
  index: number[];
  expected: Value;
  actual: Value;
  difference: Value;
  /** Null where no finite error is allowed, as for an expected NaN. */
  allowed: Value | null;
}

/** An output as a grid of at most 64 by 64 cells; a cell may represent several elements. */
export interface Picture {
  buffer: string;
  shape: number[];
  rows: number;
  cols: number;
  expected: Value[][];
  actual: Value[][];
  difference: Value[][];
  /** Share of wrong elements in each cell. */
  wrong: Value[][];
}

export interface FailureDetail extends Omit<Failure, "minimized"> {
  seed: string;
  arch: string | null;
  optimisation: string;
  strategy: string;
  facts: [label: string, text: string][];
  elements: WrongElement[];
  picture: Picture | null;
  minimized: Failure | null;
  commands: { reproduce: string; why: string; minimize: string };
}

/** A source line and a range of artifact lines generated from it. */
export interface LineMap {
  line: number;
  first: number;
  last: number;
}

export interface Artifact {
  title: string;
  text: string;
  arch: string;
  map: LineMap[];
}

/** Of Triton kernels alone: `ttir` and `ttgir`. */
export type ArtifactForm = "ptx" | "sass" | "ttir" | "ttgir";

export interface Test {
  id: string;
  label: string;
  kind: "file" | "answer" | "kernel" | "dtype" | "case";
  parent: string | null;
  uri: string;
  range: lsp.Range | null;
  runnable: boolean;
  /** The state of a stored failing case; null for other tests, whose states are sent when they are checked. */
  state?: "failed" | null;
  message?: string | null;
}

export interface TestsChanged {
  scope: string[];
  tests: Test[];
}

export interface TestState {
  runId: string | null;
  id: string;
  state: "enqueued" | "started" | "passed" | "failed" | "errored" | "skipped" | "stale";
  duration?: number;
  message?: string;
  expected?: string;
  actual?: string;
  uri?: string;
  range?: lsp.Range;
}

export interface TestOutput {
  runId: string;
  id?: string;
  text: string;
}

export interface TestsEnded {
  runId: string;
  cancelled: boolean;
}

/** Launches of one kernel at one line with one shape. */
export interface Launch {
  kernel: string;
  /** File of the kernel; null without a line table. */
  source: string | null;
  uri: string | null;
  range: lsp.Range | null;
  grid: [number, number, number];
  block: [number, number, number];
  count: number;
  checked: number;
  repeated: number;
  findings: number;
  seconds: number;
  /** Those that are stored with their contents. */
  recorded?: string[];
}

export interface RecordedProgram {
  program: string;
  /** Seconds since the epoch. */
  created: number;
  launches: Launch[];
}

export const Method = {
  status: "gpuemu/serverStatus",
  waitForIdle: "gpuemu/waitForIdle",
  failures: "gpuemu/failures",
  failuresChanged: "gpuemu/failuresChanged",
  failure: "gpuemu/failure",
  launches: "gpuemu/launches",
  launchesChanged: "gpuemu/launchesChanged",
  debugAdapter: "gpuemu/debugAdapter",
  artifact: "gpuemu/artifact",
  discoverTests: "gpuemu/discoverTests",
  testsChanged: "gpuemu/testsChanged",
  runTests: "gpuemu/runTests",
  testState: "gpuemu/testState",
  testOutput: "gpuemu/testOutput",
  testsEnded: "gpuemu/testsEnded",
  abortTests: "gpuemu/abortTests",
} as const;
