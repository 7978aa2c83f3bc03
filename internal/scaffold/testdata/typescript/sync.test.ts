import assert from "node:assert/strict";
import { test } from "node:test";

import type { Shop, GuitarShopSyncRequest } from "./setpoint_types.d.ts";
import { sync } from "./sync.ts";

const parent = { apiVersion: "example.com/v1", kind: "Shop", metadata: { name: "example" }, spec: { message: "hello" } } as Shop;

test("all children have the name of their parent", () => {
  const request = { parent, children: { "ConfigMap.v1": {} }, related: {}, finalizing: false } as unknown as GuitarShopSyncRequest;
  const { children } = sync(request);
  assert.deepEqual(children.map((child) => `${child.kind}/${child.metadata.name}`), ["ConfigMap/example"]);
});
