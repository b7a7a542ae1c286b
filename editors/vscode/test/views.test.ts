import assert from "node:assert/strict";
import { namesIn } from "../src/debugger";
import { failingKernels, failureItem } from "../src/failuresView";
import { launchItem } from "../src/launchesView";
import type { Failure, Launch, ServerStatus } from "../src/protocol";
import { summary } from "../src/status";

const FAILURE: Failure = {
  id: "4937353349871290361",
  kernel: "scale",
  dtype: "float32",
  dims: { rows: 64, cols: 32 },
  rule: "numeric/tolerance-exceeded",
  message: "y[0] = 2.5, expected 2",
  uri: "file:///scale.cu",
  range: { start: { line: 3, character: 0 }, end: { line: 4, character: 0 } },
  minimized: true,
};
const STATUS: ServerStatus = { health: "ok", quiescent: true };

export function viewTests(): void {
  describe("texts of the views", () => {
    it("groups failing cases by kernel, without a level for the file", () => {
      const kernels = failingKernels([FAILURE, { ...FAILURE, kernel: "other" }, { ...FAILURE, id: "1" }]);
      assert.deepEqual(
        kernels.map(({ name, failures }) => [name, failures.length]),
        [
          ["scale", 2],
          ["other", 1],
        ],
      );
    });

    it("names a failing case by its sizes, followed by what is wrong, without the rule", () => {
      const item = failureItem(FAILURE);
      assert.equal(item.label, "rows=64, cols=32");
      assert.equal(item.description, "minimal: y[0] = 2.5, expected 2");
      assert.equal(
        item.tooltip,
        `numeric/tolerance-exceeded\ny[0] = 2.5, expected 2\nfloat32, rows=64, cols=32; case ${FAILURE.id}`,
      );
    });

    it("offers to debug launches that are stored with their contents", () => {
      const launch: Launch = {
        kernel: "scale",
        source: "file:///scale.cu",
        uri: null,
        range: null,
        grid: [1, 1, 1],
        block: [32, 1, 1],
        count: 2,
        checked: 2,
        repeated: 0,
        findings: 0,
        seconds: 0,
        recorded: ["0a"],
      };
      assert.equal(launchItem(launch).contextValue, "recordedLaunch");
      assert.equal(launchItem({ ...launch, recorded: [] }).contextValue, "launch");
      assert.equal(launchItem({ ...launch, source: null }).contextValue, "launch");
    });

    it("shows values of the variables in a line, not of comments, strings, calls and members", () => {
      assert.deepEqual(namesIn('sum += f(x[i], p.n, "text"); // other sum'), [
        { index: 0, name: "sum" },
        { index: 9, name: "x" },
        { index: 11, name: "i" },
        { index: 15, name: "p" },
      ]);
    });

    it("shows a tick only if no kernel fails and kernels may run", () => {
      assert.deepEqual(summary(STATUS), { icon: "$(check)", text: "gpuemu" });
      assert.deepEqual(summary({ ...STATUS, failing: 2 }), { icon: "$(error)", text: "gpuemu: 2 kernels fail" });
      assert.deepEqual(summary({ ...STATUS, failing: 1 }), { icon: "$(error)", text: "gpuemu: 1 kernel fails" });
      assert.deepEqual(summary({ ...STATUS, restricted: true }), { icon: "$(shield)", text: "gpuemu: restricted" });
      const paused = { ...STATUS, paused: true };
      assert.deepEqual(summary(paused), { icon: "$(debug-pause)", text: "gpuemu: paused" });
      assert.equal(summary({ ...paused, failing: 1 }).text, "gpuemu: paused, 1 kernel fails");
      assert.deepEqual(summary({ ...STATUS, health: "warning", failing: 2 }), { icon: "$(warning)", text: "gpuemu" });
    });
  });
}
