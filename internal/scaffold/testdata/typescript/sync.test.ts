import assert from "node:assert/strict";
import { test } from "node:test";

import { checkResponse, compositeRequest } from "./setpoint/testing.js";
import type { GuitarShopSyncRequest } from "./setpoint_types.d.ts";
import { sync } from "./sync.ts";

test("all children have the name of their parent", () => {
  const parent = { apiVersion: "example.com/v1", kind: "Shop", metadata: { name: "example" }, spec: { message: "hello" } };
  const request = compositeRequest<GuitarShopSyncRequest>({ parent, children: { "ConfigMap.v1": [] } });
  const { children } = checkResponse(request, sync(request));
  assert.deepEqual(children.map((child) => `${child.kind}/${child.metadata.name}`), ["ConfigMap/example"]);
});
