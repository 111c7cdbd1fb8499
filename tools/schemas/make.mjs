// make.mjs MODULES FOLDER : JSON Schemas of the models that the boards' tests hold panels against, one file per type.
//
// The source is the type declarations that Grafana publishes; descriptions are left out. A panel's `options` are held
// against `<type>.Options`, its `fieldConfig.defaults.custom` against `<type>.FieldConfig`, the rest against `dashboard.*`;
// a board as a resource against `v2.Spec`. FOLDER/10 has the panels of Grafana 10, from MODULES/10.
import { createRequire } from "node:module";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const [modules, folder] = process.argv.slice(2).map((path) => resolve(path));
const { createGenerator } = createRequire(join(modules, "x.js"))("ts-json-schema-generator");
const published = (root) => join(root, "node_modules/@grafana/schema/dist");
const types = join(published(modules), "types");
const older = join(published(join(modules, "10")), "esm/raw");

// A panel without FieldConfig has no settings of its own per field.
const PANELS = {
  bargauge: ["Options"],
  heatmap: ["Options", "FieldConfig"],
  stat: ["Options"],
  statetimeline: ["Options", "FieldConfig"],
  table: ["Options", "FieldConfig"],
  text: ["Options"],
  timeseries: ["Options", "FieldConfig"],
  xychart: ["Options", "FieldConfig"],
};
const panels = (raw) =>
  Object.entries(PANELS).map(([kind, names]) => {
    const place = join(raw, `composable/${kind}/panelcfg/x`);
    return [kind, join(place, readdirSync(place).find((name) => name.endsWith("types.gen.d.ts"))), names];
  });

const MODELS = [
  ["", "dashboard", join(types, "raw/dashboard/x/types.gen.d.ts"), ["Dashboard", "Panel", "RowPanel"]],
  ["", "v2", join(types, "schema/dashboard/v2/types.spec.gen.d.ts"), ["Spec"]],
  ...panels(join(types, "raw")).map((model) => ["", ...model]),
  ["10", "dashboard", join(older, "dashboard/x/dashboard_types.gen.d.ts"), ["Dashboard", "Panel", "RowPanel"]],
  ...panels(older).map((model) => ["10", ...model]),
];

for (const [version, name, path, names] of MODELS) {
  mkdirSync(join(folder, version), { recursive: true });
  const generator = createGenerator({
    path,
    tsconfig: fileURLToPath(new URL("tsconfig.json", import.meta.url)),
    jsDoc: "none",
    sortProps: true,
    skipTypeCheck: true, // the declarations were checked where they were made
  });
  for (const type of names) {
    writeFileSync(join(folder, version, `${name}.${type}.json`), JSON.stringify(generator.createSchema(type)) + "\n");
  }
}
