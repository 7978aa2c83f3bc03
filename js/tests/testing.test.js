import assert from "node:assert/strict";
import { test } from "node:test";

import { checkResponse, compositeRequest, customizeRequest, decoratorRequest, handlerRequest, reviewRequest } from "../testing.js";

const parent = { apiVersion: "example.com/v1", kind: "Cat", metadata: { name: "tom", namespace: "home" }, spec: {} };
const pod = (name, namespace) => ({ apiVersion: "v1", kind: "Pod", metadata: { name, namespace } });

test("requests group objects as Setpoint does", () => {
  const children = { "Pod.v1": [pod("a", "home"), { metadata: { name: "b", namespace: "away" } }], "Namespace.v1": [{ metadata: { name: "c" } }] };
  assert.deepEqual(Object.keys(compositeRequest({ parent, children }).children["Pod.v1"]), ["home/a", "away/b"]);
  const v1 = compositeRequest({ parent, children, version: "v1" });
  assert.deepEqual(Object.keys(v1.children["Pod.v1"]), ["a", "away/b"]);
  assert.deepEqual(v1.children["Namespace.v1"], { c: { apiVersion: "v1", kind: "Namespace", metadata: { name: "c" } } });
  assert.throws(() => compositeRequest({ parent, children: { "Service.v1": [pod("a")] } }), /an object in Service\.v1 has another kind/);
  assert.throws(() => compositeRequest({ parent, children: { pods: [] } }), /pods must be KIND\.APIVERSION, such as Pod\.v1/);
});

test("requests have all fields", () => {
  assert.deepEqual(Object.keys(decoratorRequest({ object: parent })), ["controller", "object", "attachments", "related", "finalizing"]);
  assert.deepEqual(Object.keys(customizeRequest({ parent })), ["controller", "parent"]);
  const update = handlerRequest({ object: parent, reason: "Update", owned: { "Pod.v1": [pod("a", "home")] } });
  assert.deepEqual([update.reason, update.attempt, Object.keys(update.owned["Pod.v1"])], ["Update", 0, ["home/a"]]);
  const operations = [{ object: parent }, { object: parent, oldObject: parent }, { oldObject: parent }].map((o) => reviewRequest(o).operation);
  assert.deepEqual(operations, ["CREATE", "UPDATE", "DELETE"]);
});

test("valid responses are returned as Setpoint receives them", () => {
  const request = compositeRequest({ parent, children: { "Pod.v1": [] } });
  const response = { children: [pod("a")], status: { at: new Date(0), left: undefined }, events: [{ type: "Warning", reason: "Hungry" }], resyncAfterSeconds: 1.5 };
  assert.deepEqual(checkResponse(request, response).status, { at: "1970-01-01T00:00:00.000Z" });
  assert.deepEqual(checkResponse(handlerRequest({ object: parent }), undefined), {});
  checkResponse(handlerRequest({ object: parent }), { apply: [pod("a"), { object: pod("b"), unowned: true }], status: { rate: null } });
  checkResponse(reviewRequest({ object: parent }), { allowed: true, jsonPatch: [{ op: "add", path: "/a", value: [1] }] });
  checkResponse(customizeRequest({ parent }), { relatedResources: [{ apiVersion: "v1", resource: "secrets", labelSelector: {} }] });
  checkResponse(decoratorRequest({ object: parent }), { attachments: [], labels: { a: null } });
});

test("invalid responses are errors with the path", () => {
  const request = compositeRequest({ parent, children: { "Pod.v1": [] } });
  for (const [on, response, fault] of [
    [request, undefined, /the response: must be of type object, is null/],
    [request, {}, /children: required/],
    [request, { children: [], childern: [] }, /childern: unknown field/],
    [request, { children: [{ kind: "Pod", metadata: {} }] }, /children\[0\]\.apiVersion: required/],
    [request, { children: [pod()] }, /children\[0\]\.metadata\.name: required/],
    [request, { children: [pod("a"), pod("a")] }, /children\[1\]: Pod a is given twice/],
    [request, { children: [{ ...pod("a"), kind: "Job" }] }, /children\[0\]: the request has no children of kind Job\.v1/],
    [request, { children: [], resyncAfterSeconds: "1" }, /resyncAfterSeconds: must be of type number, is "1"/],
    [request, { children: [], status: { cpu: NaN } }, /status\.cpu is NaN/],
    [request, { children: [], events: [{ reason: "A", type: "Bad" }] }, /events\[0\]\.type: must be one of Normal, Warning, is "Bad"/],
    [decoratorRequest({ object: parent }), { attachments: [], labels: { a: 1 } }, /labels\.a: must be of type string, is 1/],
    [handlerRequest({ object: parent }), { apply: [{ ...pod("b"), metadata: 1 }] }, /apply\[0\]\.metadata: must be of type object, is 1/],
    [reviewRequest({ object: parent }), { message: "no" }, /allowed: required/],
    [customizeRequest({ parent }), { relatedResources: [{ resource: "pods" }] }, /relatedResources\[0\]\.apiVersion: required/],
    [{}, {}, /not a request; make one with compositeRequest/],
  ]) {
    assert.throws(() => checkResponse(on, response), fault);
  }
});
