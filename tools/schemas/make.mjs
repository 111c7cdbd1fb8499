// make.mjs MODULES FOLDER : JSON Schemas of the models that the boards' tests hold panels against, one file per type.
//
// The source is the type declarations that Grafana publishes; descriptions are left out. A panel's `options` are held
// against `<type>.Options`, its `fieldConfig.defaults.custom` against `<type>.FieldConfig`, the rest against `dashboard.*`.
import { createRequire } from "node:module";
import { mkdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const [modules, folder] = process.argv.slice(2).map((path) => resolve(path));
const { createGenerator } = createRequire(join(modules, "x.js"))("ts-json-schema-generator");
const raw = join(modules, "node_modules/@grafana/schema/dist/types/raw");
const panel = (kind) => `composable/${kind}/panelcfg/x/types.gen.d.ts`;

const MODELS = [
  ["dashboard", "dashboard/x/types.gen.d.ts", ["Dashboard", "Panel", "RowPanel"]],
  ["stat", panel("stat"), ["Options"]], // it has no settings of its own per field
  ["statetimeline", panel("statetimeline"), ["Options", "FieldConfig"]],
  ["timeseries", panel("timeseries"), ["Options", "FieldConfig"]],
  ["xychart", panel("xychart"), ["Options", "FieldConfig"]],
];

mkdirSync(folder, { recursive: true });
for (const [name, path, types] of MODELS) {
  const generator = createGenerator({
    path: join(raw, path),
    tsconfig: fileURLToPath(new URL("tsconfig.json", import.meta.url)),
    jsDoc: "none",
    sortProps: true,
    skipTypeCheck: true, // the declarations were checked where they were made
  });
  for (const type of types) {
    writeFileSync(join(folder, `${name}.${type}.json`), JSON.stringify(generator.createSchema(type)) + "\n");
  }
}
