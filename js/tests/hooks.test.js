import assert from "node:assert/strict";
import { test } from "node:test";

import { Deny, Permanent, Retry, admission, composite, decorator, handlers } from "../index.js";

const call = async (routes, request = {}) => {
  const [route] = Object.values(routes);
  const { status, body, headers, unexpected } = await route(request, {});
  return { status, body, headers, logged: unexpected };
};
const throwing = (error) => () => {
  throw error;
};

test("routes have the names of hooks", () => {
  const hook = () => ({});
  assert.deepEqual(Object.keys(composite({ sync: hook, finalize: hook, customize: hook })), ["/sync", "/finalize", "/customize"]);
  assert.deepEqual(Object.keys(decorator({ sync: hook }, { prefix: "/cats" })), ["/cats/sync"]);
  assert.deepEqual(Object.keys(handlers({ publish: hook, refresh: hook })), ["/publish", "/refresh"]);
  assert.deepEqual(Object.keys(admission({ fit: hook })), ["/fit"]);
});

test("mistakes are found at the start", () => {
  const hook = () => ({});
  assert.throws(() => composite({ finalise: hook }), /unknown hook finalise; must be one of sync, finalize, customize/);
  assert.throws(() => decorator({ sync: null }), /sync must be a function, is null/);
  assert.throws(() => handlers({}), /handlers: no functions given/);
  assert.throws(() => composite(undefined), /composite: no functions given/);
  assert.throws(() => admission({ fit: hook }, { prefix: "cats/" }), /prefix must be such as \/cats, is cats\//);
  assert.throws(() => new Retry("later"), /after must be a number of seconds above 0, is undefined/);
});

test("a hook returns an object, or a promise of one", async () => {
  assert.deepEqual(await call(composite({ sync: async () => ({ children: [] }) })), { status: 200, body: '{"children":[]}', headers: undefined, logged: undefined });
  for (const [value, found] of [[undefined, "undefined"], [null, "null"], [[], "a list"], ["x", '"x"'], [1n, "1"]]) {
    for (const make of [composite({ sync: () => value }), admission({ fit: () => value })]) {
      const { status, body, logged } = await call(make);
      assert.equal(status, 500);
      assert.match(body, new RegExp(`must return an object, returned ${found}$`));
      assert.ok(logged instanceof TypeError);
    }
  }
  assert.equal((await call(handlers({ publish: () => {} }))).body, "{}");
});

test("values without a JSON form are errors that name the field", async () => {
  const cycle = { a: [] };
  cycle.a.push(cycle);
  for (const [value, message] of [
    [{ status: { cpu: NaN } }, "status.cpu is NaN"],
    [{ children: [{ spec: { at: 10n } }] }, "children[0].spec.at is a bigint"],
    [{ children: [undefined] }, "children[0] is undefined"],
    [{ children: Promise.resolve([]) }, "children is a Promise, which has no JSON form: await it"],
    [{ status: new Map() }, "status is a Map"],
    [{ status: { "a/b": () => {} } }, 'status["a/b"] is a function'],
    [{ message: "\ud800" }, "message is not valid Unicode"],
    [{ status: cycle }, "status.a[0] contains itself"],
  ]) {
    const { status, body } = await call(composite({ sync: () => value }));
    assert.equal(status, 500);
    assert.ok(body.startsWith(`TypeError: ${message}`), body);
  }
  const twice = { a: 1 };
  const fine = { at: new Date(0), left: undefined, list: [twice, twice], self: new (class { c = 1; toJSON() { return this; } })(), bare: Object.assign(Object.create(null), { b: null }) };
  assert.equal((await call(composite({ sync: () => fine }))).body, '{"at":"1970-01-01T00:00:00.000Z","list":[{"a":1},{"a":1}],"self":{"c":1},"bare":{"b":null}}');
});

test("sync fails with a status", async () => {
  assert.deepEqual(await call(composite({ sync: throwing(new Retry("not yet", { after: 1.5 })) })), { status: 429, body: "not yet", headers: { "Retry-After": "2" }, logged: undefined });
  for (const [error, body] of [
    [new Error("no such colour"), "no such colour"],
    [new TypeError("x is undefined"), "TypeError: x is undefined"],
    [new Error(), "Error"],
    ["text", 'threw "text"'],
    [undefined, "threw undefined"],
    [Object.create(null), "threw an object"],
  ]) {
    assert.deepEqual(await call(decorator({ sync: throwing(error) })), { status: 500, body, headers: undefined, logged: error });
  }
});

test("handlers fail with an error in the response", async () => {
  for (const [error, response, logged] of [
    [new Permanent("no such currency"), { error: { message: "no such currency", permanent: true } }],
    [new Retry("not yet", { after: 0.5 }), { error: { message: "not yet" }, retryAfterSeconds: 0.5 }],
    [new RangeError("x"), { error: { message: "RangeError: x" } }, true],
  ]) {
    const result = await call(handlers({ publish: throwing(error) }));
    assert.deepEqual([result.status, JSON.parse(result.body), result.logged], [200, response, logged && error]);
  }
});

test("admission denies by Deny, and fails otherwise", async () => {
  const denied = await call(admission({ fit: throwing(new Deny("too large", { code: 422, reason: "Invalid" })) }));
  assert.deepEqual(JSON.parse(denied.body), { allowed: false, message: "too large", code: 422, reason: "Invalid" });
  assert.deepEqual(JSON.parse((await call(admission({ fit: throwing(new Deny("no")) }))).body), { allowed: false, message: "no" });
  assert.equal((await call(admission({ fit: throwing(new Error("down")) }))).status, 500);
});
