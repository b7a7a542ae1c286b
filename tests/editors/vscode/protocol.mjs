// The debug adapter, driven by VS Code's own client for tests of adapters, which also validates the order of messages.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

const facts = JSON.parse(process.env.GPUEMU_TEST_FACTS); // {program, root, source, case, line}
const { DebugClient } = createRequire(path.join(process.env.GPUEMU_EDITORS_DIR, "tools/"))("@vscode/debugadapter-testsupport");

const client = new DebugClient(facts.program, "--debug-adapter", "gpuemu");
client.defaultTimeout = 120_000;

async function moved(request) {
  const [, { body }] = await Promise.all([request, client.waitForEvent("stopped")]);
  const { body: stack } = await client.stackTraceRequest({ threadId: body.threadId });
  return { ...body, frame: stack.stackFrames[0], line: stack.stackFrames[0].line };
}

async function scope(frameId, name) {
  const { body } = await client.scopesRequest({ frameId });
  const { variablesReference } = body.scopes.find((each) => each.name === name);
  const { body: found } = await client.variablesRequest({ variablesReference });
  return Object.fromEntries(found.variables.map((each) => [each.name, each]));
}

try {
  await client.start();
  const [{ body: first }] = await Promise.all([
    client.waitForEvent("stopped"),
    client.waitForEvent("initialized").then(() => client.configurationDoneRequest()),
    client.launch({ root: facts.root, case: facts.case }),
  ]);
  assert.equal(first.reason, "exception");
  assert.match(first.text, /expected/);
  const threadId = first.threadId;
  const { body: stack } = await client.stackTraceRequest({ threadId });
  assert.equal(stack.stackFrames[0].line, facts.line);
  const { body: info } = await client.exceptionInfoRequest({ threadId });
  assert.match(info.exceptionId, /^numeric\//);
  assert.equal((await scope(stack.stackFrames[0].id, "Locals")).cols.type, "int");

  let stop;
  const lines = [];
  for (let step = 0; step < 10; step++) {
    stop = await moved(client.stepBackRequest({ threadId }));
    lines.push(stop.line);
  }
  assert.deepEqual(lines.slice(0, 5), [7, 11, 10, 9, 8]);
  for (const line of lines.slice(0, 9).reverse()) {
    assert.equal((await moved(client.nextRequest({ threadId }))).line, line);
  }

  const { body: set } = await client.setBreakpointsRequest({
    source: { path: facts.source },
    breakpoints: [{ line: 9, condition: "half == 3 && threadIdx.x == 2" }],
  });
  assert(set.breakpoints[0].verified);
  stop = await moved(client.reverseContinueRequest({ threadId }));
  assert.deepEqual([stop.reason, stop.line], ["breakpoint", 9]);
  assert.equal((await scope(stop.frame.id, "Locals")).half.value, "3");
  await client.setBreakpointsRequest({ source: { path: facts.source }, breakpoints: [] });

  const shared = await scope(stop.frame.id, "Shared memory");
  const { body: data } = await client.dataBreakpointInfoRequest({ variablesReference: shared.parts.variablesReference, name: "[1]" });
  await client.setDataBreakpointsRequest({ breakpoints: [{ dataId: data.dataId, accessType: "write" }] });
  stop = await moved(client.reverseContinueRequest({ threadId }));
  assert.equal(stop.reason, "data breakpoint");
  assert.match(stop.text, /^thread \(1, 0, 0\) writes parts\[1\] = /);

  const { body: said } = await client.evaluateRequest({ expression: "who parts[1]", context: "repl", frameId: stop.frame.id });
  assert.match(said.result, /parts\[1\] = .*: line \d+, thread \(1, 0, 0\)/);
  console.log("scenario passed");
} finally {
  await client.stop();
}
