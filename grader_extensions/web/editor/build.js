// Bundles editor.js with CodeMirror into one file, below the licences of the packages that are in it.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";

const result = await build({
  entryPoints: ["editor.js"], bundle: true, minify: true, write: false, metafile: true, charset: "utf8", format: "iife", target: "es2022",
});
const packages = [...new Set(Object.keys(result.metafile.inputs).map((path) => path.match(/^node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1]))];
const texts = new Map();
for (const name of packages.filter(Boolean).sort()) {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  const licence = readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim();
  texts.set(licence, [...(texts.get(licence) ?? []), `${name} ${version}`]);
}
const header = [...texts].map(([licence, names]) => `${names.join(", ")}\n\n${licence}`).join("\n\n");
writeFileSync("../static/editor.js", `/* Built by editor/build.js; do not edit.\n\n${header}\n*/\n${result.outputFiles[0].text}`);
