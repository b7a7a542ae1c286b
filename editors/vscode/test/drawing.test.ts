import assert from "node:assert/strict";
import { linesOf, sourceOf } from "../src/artifacts";
import { colour, format, NAN, NEGATIVE_INFINITY, POSITIVE_INFINITY, scaleOf } from "../src/panel/heat";

export function drawingTests(): void {
  describe("drawing of the panel", () => {
    it("scales over finite values of all grids, and over nothing", () => {
      assert.deepEqual(scaleOf([[1, "NaN"]], [["Infinity", -3]]), { low: -3, high: 1 });
      assert.deepEqual(scaleOf([["NaN"]]), { low: 0, high: 0 });
    });

    it("maps the scale to the palette and clamps", () => {
      const scale = { low: -1, high: 1 };
      assert.deepEqual(colour(-1, scale, "values"), [68, 1, 84]);
      assert.deepEqual(colour(1, scale, "values"), [253, 231, 37]);
      assert.deepEqual(colour(0, scale, "values"), [33, 145, 140]);
      assert.deepEqual(colour(7, scale, "values"), colour(1, scale, "values"));
      assert.deepEqual(colour(3, { low: 3, high: 3 }, "difference"), colour(0, { low: 0, high: 1 }, "difference"));
    });

    it("gives NaN and infinities colours that no scale contains", () => {
      const scale = { low: 0, high: 1 };
      assert.deepEqual(colour("NaN", scale, "values"), NAN);
      assert.deepEqual(colour("Infinity", scale, "values"), POSITIVE_INFINITY);
      assert.deepEqual(colour("-Infinity", scale, "difference"), NEGATIVE_INFINITY);
    });

    it("formats values with seven significant digits", () => {
      assert.equal(format(0.1), "0.1");
      assert.equal(format(1 / 3), "0.3333333");
      assert.equal(format("NaN"), "NaN");
    });

    it("finds every range of instructions of a source line, and the source line of an instruction", () => {
      const map = [
        { line: 4, first: 10, last: 12 },
        { line: 5, first: 13, last: 13 },
        { line: 4, first: 20, last: 21 },
      ];
      const artifact = { title: "", text: "", arch: "", map };
      assert.deepEqual(
        [9, 10, 12, 13, 21, 22].map((line) => sourceOf(artifact, line)),
        [undefined, 4, 4, 5, 4, undefined],
      );
      const lines = linesOf(artifact, 4).map((range) => [range.start.line, range.end.line]);
      assert.deepEqual(lines, [
        [10, 12],
        [20, 21],
      ]);
    });
  });
}
