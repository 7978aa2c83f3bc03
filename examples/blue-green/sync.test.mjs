// Tests of sync.mjs: node --test, in this folder.

import assert from "node:assert/strict";
import { test } from "node:test";

import { checkResponse, compositeRequest } from "setpoint/testing";

import { sync } from "./sync.mjs";

/** Returns the response for a parent and its children, as Setpoint receives it. */
function respond(parent, children) {
  const request = compositeRequest({ parent, children });
  return checkResponse(request, sync(request));
}

const template = (image) => ({ spec: { containers: [{ name: "shop", image }] } });

const parent = (image) => ({
  metadata: { name: "shop", namespace: "default" },
  spec: { replicas: 2, ports: [{ port: 80 }], template: template(image) },
});

/** Plays the API server and the Deployment controller: returns the children of a response with their status. */
function observe(children, available = {}) {
  const observed = (kind) => children.filter((c) => c.kind === kind).map((c) => {
    const count = c.spec.replicas;
    const status = { observedGeneration: 1, replicas: count, updatedReplicas: count, availableReplicas: available[c.metadata.name] ?? count };
    return { ...c, metadata: { ...c.metadata, namespace: "default", generation: 1 }, status };
  });
  return { "Deployment.apps/v1": observed("Deployment"), "Service.v1": observed("Service") };
}

/** Summarizes a response: the served colour, and the image and size of each Deployment. */
function summary({ status, children }) {
  const [service, ...deployments] = children;
  const sizes = deployments.map((d) => `${d.metadata.name}=${d.spec.template.spec.containers[0].image}×${d.spec.replicas}`);
  return [`${service.spec.selector["examples.setpoint.dev/colour"]} ${status.active} ${status.phase}`, ...sizes.sort()].join(" ");
}

const first = respond(parent("v1"), observe([]));

test("the first template is served at once", () => {
  assert.equal(summary(first), "blue blue Serving shop-blue=v1×2");
});

test("the other colour gets a new template, and takes over when it is available", () => {
  const preparing = respond(parent("v2"), observe(first.children));
  assert.equal(summary(preparing), "blue blue Preparing shop-blue=v1×2 shop-green=v2×2");

  const almost = respond(parent("v2"), observe(preparing.children, { "shop-green": 1 }));
  assert.equal(summary(almost), "blue blue Preparing shop-blue=v1×2 shop-green=v2×2");

  const switched = respond(parent("v2"), observe(preparing.children));
  assert.equal(summary(switched), "green green Serving shop-blue=v1×2 shop-green=v2×2");
  assert.deepEqual(switched.events.map((e) => e.message), ["green serves now, no longer blue"]);

  const scaledDown = respond(parent("v2"), observe(switched.children));
  assert.equal(summary(scaledDown), "green green Serving shop-blue=v1×0 shop-green=v2×2");

  const settled = respond(parent("v2"), observe(scaledDown.children));
  assert.deepEqual(settled, scaledDown);
});

test("a rollback while a new template is prepared does not change the served colour", () => {
  const preparing = respond(parent("v2"), observe(first.children));
  const back = respond(parent("v1"), observe(preparing.children, { "shop-green": 0 }));
  assert.equal(summary(back), "blue blue Serving shop-blue=v1×2 shop-green=v2×0");
});

test("a template that changes while it is prepared replaces the prepared one", () => {
  const preparing = respond(parent("v2"), observe(first.children));
  const again = respond(parent("v3"), observe(preparing.children));
  assert.equal(summary(again), "blue blue Preparing shop-blue=v1×2 shop-green=v3×2");
});

test("without a Service the status has the served colour", () => {
  const children = observe([makeGreen()]);
  const response = respond({ ...parent("v2"), status: { active: "green" } }, children);
  assert.equal(summary(response), "green green Serving shop-green=v2×2");
});

test("pods have the labels of the template and of the colour", () => {
  const labelled = parent("v1");
  labelled.spec.template.metadata = { labels: { tier: "front" } };
  const [, deployment] = respond(labelled, observe([])).children;
  assert.deepEqual(deployment.spec.template.metadata.labels, {
    tier: "front",
    ...deployment.spec.selector.matchLabels,
  });
});

function makeGreen() {
  const preparing = respond(parent("v2"), observe(first.children));
  return preparing.children.find((c) => c.metadata.name === "shop-green");
}
