import assert from "node:assert/strict";
import { test } from "node:test";

import type { <%.Kind%>, <%.Base%>SyncRequest } from "./setpoint_types.d.ts";
import { sync } from "./sync.ts";

const parent = { apiVersion: "<%.APIVersion%>", kind: "<%.Kind%>", metadata: { name: "example" }<%if .HasStatus%>, spec: { message: "hello" }<%end%> } as <%.Kind%>;

test("all children have the name of their parent", () => {
  const request = { parent, children: {<%range $i, $c := .Children%><%if $i%>,<%end%> "<%.Key%>": {}<%end%> }, related: {}, finalizing: false } as unknown as <%.Base%>SyncRequest;
  const { children } = sync(request);
  assert.deepEqual(children.map((child) => `${child.kind}/${child.metadata.name}`), [<%range $i, $c := .Children%><%if $i%>, <%end%>"<%.Kind%>/example"<%end%>]);
});
