import assert from "node:assert/strict";
import { linesOf } from "../src/artifacts";
import { colour, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, say, scaleOf } from "../src/panel/heat";

export function drawingTests(): void {
  describe("what the panel draws", () => {
    it("scales over finite values of all grids, and over nothing", () => {
      assert.deepEqual(scaleOf([[1, "NaN"]], [["Infinity", -3]]), { low: -3, high: 1 });
      assert.deepEqual(scaleOf([["NaN"]]), { low: 0, high: 0 });
    });

    it("goes from one end of its palette to the other and stays there", () => {
      const scale = { low: -1, high: 1 };
      assert.deepEqual(colour(-1, scale, "values"), [68, 1, 84]);
      assert.deepEqual(colour(1, scale, "values"), [253, 231, 37]);
      assert.deepEqual(colour(0, scale, "values"), [33, 145, 140]);
      assert.deepEqual(colour(7, scale, "values"), colour(1, scale, "values"));
      assert.deepEqual(colour(3, { low: 3, high: 3 }, "difference"), colour(0, { low: 0, high: 1 }, "difference"));
    });

    it("gives what is not finite a colour that no scale has", () => {
      const scale = { low: 0, high: 1 };
      assert.deepEqual(colour("NaN", scale, "values"), NAN);
      assert.deepEqual(colour("Infinity", scale, "values"), POSITIVE_INFINITY);
      assert.deepEqual(colour("-Infinity", scale, "difference"), NEGATIVE_INFINITY);
    });

    it("says values briefly and exactly enough", () => {
      assert.equal(say(0.1), "0.1");
      assert.equal(say(1 / 3), "0.3333333");
      assert.equal(say("NaN"), "NaN");
    });

    it("marks every run of instructions that a source line became", () => {
      const map = [
        { line: 4, first: 10, last: 12 },
        { line: 5, first: 13, last: 13 },
        { line: 4, first: 20, last: 21 },
      ];
      const lines = linesOf({ title: "", text: "", arch: "", map }, 4).map((range) => [
        range.start.line,
        range.end.line,
      ]);
      assert.deepEqual(lines, [
        [10, 12],
        [20, 21],
      ]);
    });
  });
}
