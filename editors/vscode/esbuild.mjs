// Bundles the extension, the script of its panel and, with --tests, the tests of the extension host.
import * as esbuild from "esbuild";

const host = {
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["vscode"],
  logLevel: "warning",
};

await esbuild.build({ ...host, entryPoints: ["src/extension.ts"], outfile: "dist/extension.js", minify: true });
await esbuild.build({
  bundle: true,
  platform: "browser",
  target: "es2022",
  format: "iife",
  minify: true,
  logLevel: "warning",
  entryPoints: ["src/panel/page.ts"],
  outfile: "dist/panel.js",
});
if (process.argv.includes("--tests")) {
  await esbuild.build({
    ...host,
    entryPoints: ["test/index.ts"],
    outfile: "dist/test/index.js",
    external: ["vscode", "mocha"],
  });
}
