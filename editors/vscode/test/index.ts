/** Runs the tests in the extension host and writes their results to the file $GPUEMU_MOCHA_REPORT. */

import { writeFileSync } from "node:fs";
import type MochaModule from "mocha";
import { clientTests } from "./client.test";
import { discoveryTests } from "./discovery.test";
import { drawingTests } from "./drawing.test";
import { pairTests } from "./pairs.test";
import { stringTests } from "./strings.test";
import { viewTests } from "./views.test";

const required = require("mocha") as typeof MochaModule & { default?: typeof MochaModule };
const Mocha = required.default ?? required;

/** The tests of each folder that a workbench is opened with. */
const SUITES: Record<string, (() => void)[]> = {
  client: [drawingTests, viewTests, discoveryTests, clientTests],
  strings: [stringTests],
  pairs: [pairTests],
};

export function run(): Promise<void> {
  const mocha = new Mocha({ ui: "bdd", timeout: 120_000 });
  mocha.suite.emit("pre-require", globalThis, "", mocha);
  for (const tests of SUITES[process.env.GPUEMU_MOCHA_SUITE ?? ""] ?? []) {
    tests();
  }
  return new Promise((resolve, reject) => {
    const results: { title: string; error?: string }[] = [];
    mocha
      .run((failures) => {
        writeFileSync(process.env.GPUEMU_MOCHA_REPORT ?? "", JSON.stringify(results));
        failures ? reject(new Error(`${failures} failed`)) : resolve();
      })
      .on("pass", (test) => results.push({ title: test.fullTitle() }))
      .on("fail", (test, error) => results.push({ title: test.fullTitle(), error: error.stack ?? error.message }));
  });
}
