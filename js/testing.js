// For tests without a cluster: requests as Setpoint sends them, and what it requires of responses.

import assert from "node:assert";
import { readFileSync } from "node:fs";

import { encode, join } from "./json.js";

const types = JSON.parse(readFileSync(new URL("wire.schema.json", import.meta.url), "utf8")).$defs;

/** Returns a request to sync or finalize of a CompositeController. */
export function compositeRequest({ parent, children = {}, related = {}, finalizing = false, version = "v2", controller }) {
  return {
    controller: controller ?? makeController("CompositeController"),
    parent,
    children: group(children, parent, version),
    related: group(related, parent, version),
    finalizing,
  };
}

/** Returns a request to sync or finalize of a DecoratorController. */
export function decoratorRequest({ object, attachments = {}, related = {}, finalizing = false, version = "v2", controller }) {
  return {
    controller: controller ?? makeController("DecoratorController"),
    object,
    attachments: group(attachments, object, version),
    related: group(related, object, version),
    finalizing,
  };
}

/** Returns a request to customize. */
export function customizeRequest({ parent, controller = makeController("CompositeController") }) {
  return { controller, parent };
}

/** Returns a request to a handler: by default, the first call for a new object. */
export function handlerRequest({ object, owned = {}, ...fields }) {
  return {
    controller: makeController("HandlerController"), handler: "test", reason: "Create", previousState: null, changes: [],
    attempt: 0, firstAttempt: null, progress: null, deleted: false, event: null, daemon: null, dryRun: false,
    ...fields, object, owned: group(owned, object, "v2"),
  };
}

/** Returns a request to an admission webhook: by default, the creation of an object. */
export function reviewRequest({ object = null, oldObject = null, ...fields }) {
  const { apiVersion, kind, metadata } = object ?? oldObject;
  const operation = oldObject === null ? "CREATE" : object === null ? "DELETE" : "UPDATE";
  return {
    controller: makeController("AdmissionController"), webhook: "test", uid: "00000000-0000-0000-0000-000000000000",
    operation, apiVersion, kind, resource: `${kind.toLowerCase()}s`, subresource: "",
    namespace: metadata.namespace ?? "", name: metadata.name ?? "", user: { username: "test" }, dryRun: false,
    ...fields, object, oldObject,
  };
}

/** Returns the response as Setpoint receives it. An AssertionError lists what Setpoint refuses. */
export function checkResponse(request, response) {
  const { type, desired, observed } = formOf(request);
  const received = JSON.parse(encode(response ?? (type === "HandlerResponse" ? {} : null)));
  const faults = [...faultsOf(received, { $ref: `#/$defs/${type}` }, "")];
  if (faults.length === 0 && desired) {
    faults.push(...faultsOfDesired(received[desired], desired, request[observed]));
  }
  assert.ok(faults.length === 0, `invalid ${type}:\n  ${faults.join("\n  ")}`);
  return received;
}

function formOf(request) {
  const forms = {
    children: { type: "SyncResponse", desired: "children", observed: "children" },
    attachments: { type: "DecoratorSyncResponse", desired: "attachments", observed: "attachments" },
    handler: { type: "HandlerResponse" },
    webhook: { type: "ReviewResponse" },
    parent: { type: "CustomizeResponse" },
  };
  const field = Object.keys(forms).find((name) => name in request);
  if (!field) {
    throw new TypeError("not a request; make one with compositeRequest, decoratorRequest, customizeRequest, handlerRequest or reviewRequest");
  }
  return forms[field];
}

const makeController = (kind) => ({ apiVersion: "setpoint.dev/v1alpha1", kind, metadata: { name: "test" }, spec: {} });

/** Returns lists of objects by kind as objects by kind and name. */
function group(lists, parent, version) {
  return Object.fromEntries(Object.entries(lists).map(([key, objects]) => {
    const [kind, apiVersion] = splitKey(key);
    return [key, Object.fromEntries(objects.map((o) => {
      const whole = { apiVersion, kind, ...o };
      assert.equal(keyOf(whole), key, `an object in ${key} has another kind`);
      return [nameOf(whole, parent, version), whole];
    }))];
  }));
}

function splitKey(key) {
  const dot = key.indexOf(".");
  assert.ok(dot > 0, `${key} must be KIND.APIVERSION, such as Pod.v1 or Deployment.apps/v1`);
  return [key.slice(0, dot), key.slice(dot + 1)];
}

const keyOf = ({ apiVersion, kind }) => `${kind}.${apiVersion}`;

function nameOf({ metadata: { name, namespace } }, parent, version) {
  const short = !namespace || (version === "v1" && namespace === parent.metadata.namespace);
  return short ? name : `${namespace}/${name}`;
}

/** Yields what the schema cannot say of desired objects. */
function* faultsOfDesired(objects, field, observed) {
  const seen = new Set();
  for (const [i, object] of objects.entries()) {
    const { name, namespace } = object.metadata;
    const identity = `${keyOf(object)} ${namespace ?? ""}/${name}`;
    if (!name) {
      yield `${field}[${i}].metadata.name: required`;
    } else if (seen.has(identity)) {
      yield `${field}[${i}]: ${object.kind} ${name} is given twice`;
    }
    if (!(keyOf(object) in observed)) {
      yield `${field}[${i}]: the request has no ${field} of kind ${keyOf(object)}, so the controller does not declare it`;
    }
    seen.add(identity);
  }
}

/** Yields how a value differs from a schema, of the keywords that wire.schema.json uses. */
function* faultsOf(value, schema, path) {
  if (schema.$ref) {
    yield* faultsOf(value, types[schema.$ref.slice("#/$defs/".length)], path);
  } else if (schema.anyOf) {
    yield* faultsOfUnion(value, schema.anyOf, path);
  } else if ("const" in schema) {
    if (value !== schema.const) {
      yield `${path}: must be ${JSON.stringify(schema.const)}, is ${JSON.stringify(value)}`;
    }
  } else if (schema.type && !hasType(value, schema.type)) {
    yield `${path || "the response"}: must be of type ${schema.type}, is ${JSON.stringify(value).slice(0, 80)}`;
  } else if (schema.type === "array") {
    for (const [i, item] of value.entries()) {
      yield* faultsOf(item, schema.items, join(path, i));
    }
  } else if (schema.type === "object") {
    yield* faultsOfFields(value, schema, path);
  }
}

/** Yields the faults of the alternative that is nearest to a value. */
function* faultsOfUnion(value, alternatives, path) {
  if (alternatives.every((each) => "const" in each)) {
    const allowed = alternatives.map((each) => each.const);
    if (!allowed.includes(value)) {
      yield `${path}: must be one of ${allowed.join(", ")}, is ${JSON.stringify(value)}`;
    }
    return;
  }
  const all = alternatives.map((each) => [...faultsOf(value, each, path)]);
  yield* all.reduce((nearest, each) => (each.length < nearest.length ? each : nearest));
}

function* faultsOfFields(value, { properties = {}, required = [], additionalProperties = {} }, path) {
  for (const name of required.filter((each) => !Object.hasOwn(value, each))) {
    yield `${join(path, name)}: required`;
  }
  for (const [name, field] of Object.entries(value)) {
    if (Object.hasOwn(properties, name)) {
      yield* faultsOf(field, properties[name], join(path, name));
    } else if (additionalProperties === false) {
      yield `${join(path, name)}: unknown field`;
    } else {
      yield* faultsOf(field, additionalProperties, join(path, name));
    }
  }
}

function hasType(value, type) {
  switch (type) {
    case "array":
      return Array.isArray(value);
    case "integer":
      return Number.isInteger(value);
    case "null":
      return value === null;
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    default:
      return typeof value === type;
  }
}
