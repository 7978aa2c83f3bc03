import assert from "node:assert/strict";
import { test } from "node:test";

import { child } from "../index.js";

const groups = {
  "ConfigMap.v1": { "home/web": { at: "home" }, "home/both": { at: "home" }, "away/both": { at: "away" } },
  "Namespace.v1": { home: { at: "cluster" } },
  "Pod.v1": {},
};

test("a name finds an object, whatever its key", () => {
  for (const [kind, name, at] of [
    ["ConfigMap.v1", "web", "home"], ["ConfigMap.v1", "home/web", "home"], ["ConfigMap.v1", "away/both", "away"],
    ["Namespace.v1", "home", "cluster"],
  ]) {
    assert.equal(child(groups, kind, name).at, at);
  }
});

test("what is not there is undefined", () => {
  for (const [kind, name] of [["ConfigMap.v1", "eb"], ["ConfigMap.v1", "away/web"], ["Namespace.v1", "toString"], ["Pod.v1", "web"]]) {
    assert.equal(child(groups, kind, name), undefined);
  }
});

test("what is not clear is an error", () => {
  assert.throws(() => child(groups, "ConfigMap.v1", "both"), /several ConfigMap.v1 both: name one of home\/both, away\/both/);
  assert.throws(() => child(groups, "ConfigMap", "web"), /no objects ConfigMap: there are ConfigMap.v1, Namespace.v1, Pod.v1/);
});
