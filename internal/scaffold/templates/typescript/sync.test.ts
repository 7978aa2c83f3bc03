import assert from "node:assert/strict";
import { test } from "node:test";

import { checkResponse, compositeRequest } from "./setpoint/testing.js";
import type { <%.Base%>SyncRequest } from "./setpoint_types.d.ts";
import { sync } from "./sync.ts";

test("all children have the name of their parent", () => {
  const parent = { apiVersion: "<%.APIVersion%>", kind: "<%.Kind%>", metadata: { name: "example" }<%if .HasStatus%>, spec: { message: "hello" }<%end%> };
  const request = compositeRequest<<%.Base%>SyncRequest>({ parent, children: {<%range $i, $c := .Children%><%if $i%>,<%end%> "<%.Key%>": []<%end%> } });
  const { children } = checkResponse(request, sync(request));
  assert.deepEqual(children.map((child) => `${child.kind}/${child.metadata.name}`), [<%range $i, $c := .Children%><%if $i%>, <%end%>"<%.Kind%>/example"<%end%>]);
});
