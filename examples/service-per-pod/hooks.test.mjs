// Tests of hooks.mjs: node --test, in this folder.

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkResponse, decoratorRequest } from "setpoint/testing";

import { finalize, sync } from "./hooks.mjs";

const statefulSet = (ports, spec) => ({
  metadata: { name: "db", annotations: { "service-per-pod.examples.setpoint.dev/ports": ports } },
  spec,
});

/** Returns the response of a hook, as Setpoint receives it. */
function respond(hook, object, services = []) {
  const request = decoratorRequest({ object, attachments: { "Service.v1": services }, version: "v1" });
  return checkResponse(request, hook(request));
}

test("each replica has a Service that selects its pod", () => {
  const { attachments } = respond(sync, statefulSet("80:8080", { replicas: 2 }));
  assert.deepEqual(attachments.map((s) => s.metadata.name), ["db-0", "db-1"]);
  assert.deepEqual(attachments[1].spec, {
    selector: { "statefulset.kubernetes.io/pod-name": "db-1" },
    ports: [{ name: "port-80", port: 80, targetPort: 8080 }],
  });
});

test("ordinals may start at another number", () => {
  const { attachments } = respond(sync, statefulSet("80", { replicas: 2, ordinals: { start: 5 } }));
  assert.deepEqual(attachments.map((s) => s.metadata.name), ["db-5", "db-6"]);
});

test("a port without a target targets itself, and several ports are allowed", () => {
  const [{ spec }] = respond(sync, statefulSet("80, 443:8443", { replicas: 1 })).attachments;
  assert.deepEqual(spec.ports.map((p) => [p.port, p.targetPort]), [[80, 80], [443, 8443]]);
});

test("invalid ports are an error", () => {
  assert.throws(() => sync({ object: statefulSet("http", { replicas: 1 }) }), /want PORT or PORT:TARGET.*"http"/);
  assert.throws(() => sync({ object: statefulSet("", { replicas: 1 }) }), /found ""/);
});

test("finalized is true when the last Service is deleted", () => {
  assert.deepEqual(respond(finalize, statefulSet("80"), [{ metadata: { name: "db-0" } }]), { attachments: [], finalized: false });
  assert.deepEqual(respond(finalize, statefulSet("80")), { attachments: [], finalized: true });
});
