// Hooks are functions from a request to a response. Here they become routes: functions by their
// path, which return the status and the body of an HTTP response, also if the hook fails.

import { encode } from "./json.js";

/** Thrown by an admission hook, refuses the change. */
export class Deny extends Error {
  constructor(message, { code, reason } = {}) {
    super(message);
    this.name = "Deny";
    this.response = { allowed: false, message, code, reason };
  }
}

/** Thrown by a handler: Setpoint calls it again when the object changes, not before. */
export class Permanent extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = "Permanent";
  }
}

/** Thrown by any hook but admission: Setpoint calls it again after that many seconds. */
export class Retry extends Error {
  constructor(message, { after, ...options } = {}) {
    super(message, options);
    if (!(after > 0 && after < Infinity)) {
      throw new TypeError(`Retry: after must be a number of seconds above 0, is ${after}`);
    }
    this.name = "Retry";
    this.after = after;
  }
}

/** Routes to the hooks of a CompositeController: /sync, /finalize, /customize. */
export function composite(hooks, options) {
  return routes("composite", hooks, options, { known: desiredState, empty: false, fail: failSync });
}

/** Routes to the hooks of a DecoratorController: /sync, /finalize, /customize. */
export function decorator(hooks, options) {
  return routes("decorator", hooks, options, { known: desiredState, empty: false, fail: failSync });
}

/** Routes to handlers of a HandlerController, by their names: publish is at /publish. */
export function handlers(hooks, options) {
  return routes("handlers", hooks, options, { empty: true, fail: failHandler });
}

/** Routes to webhooks of an AdmissionController, by their names: fit is at /fit. */
export function admission(hooks, options) {
  return routes("admission", hooks, options, { empty: false, fail: failReview });
}

const desiredState = ["sync", "finalize", "customize"];

function routes(type, hooks, { prefix = "" } = {}, rules) {
  if (prefix && (!prefix.startsWith("/") || prefix.endsWith("/"))) {
    throw new TypeError(`${type}: prefix must be such as /cats, is ${prefix}`);
  }
  const all = Object.entries(hooks ?? {});
  if (all.length === 0) {
    throw new TypeError(`${type}: no functions given`);
  }
  for (const [name, hook] of all) {
    if (typeof hook !== "function") {
      throw new TypeError(`${type}: ${name} must be a function, is ${hook === null ? "null" : typeof hook}`);
    }
    if (rules.known && !rules.known.includes(name)) {
      throw new TypeError(`${type}: unknown hook ${name}; must be one of ${rules.known.join(", ")}`);
    }
  }
  return Object.fromEntries(all.map(([name, hook]) => [`${prefix}/${name}`, route(name, hook, rules)]));
}

function route(name, hook, { empty, fail }) {
  return async (request, context) => {
    try {
      const response = await hook(request, context);
      if (empty && response === undefined) {
        return success("{}");
      }
      if (typeof response !== "object" || response === null || Array.isArray(response)) {
        throw new TypeError(`${name} must return an object, returned ${describe(response)}`);
      }
      return success(encode(response));
    } catch (error) {
      return fail(error);
    }
  };
}

const success = (body) => ({ status: 200, body });

/** Setpoint shows the text of a failure. The server logs what a result has as unexpected, with its stack. */
export const failure = (status, body, headers) => ({ status, body, text: true, headers });

function failSync(error) {
  if (error instanceof Retry) {
    return failure(429, error.message, { "Retry-After": String(Math.ceil(error.after)) });
  }
  return { ...failure(500, messageOf(error)), unexpected: error };
}

function failHandler(error) {
  const message = messageOf(error);
  if (error instanceof Retry) {
    return success(JSON.stringify({ error: { message }, retryAfterSeconds: error.after }));
  }
  if (error instanceof Permanent) {
    return success(JSON.stringify({ error: { message, permanent: true } }));
  }
  return { ...success(JSON.stringify({ error: { message } })), unexpected: error };
}

function failReview(error) {
  if (error instanceof Deny) {
    return success(JSON.stringify(error.response));
  }
  return { ...failure(500, messageOf(error)), unexpected: error };
}

/** Returns the message of whatever was thrown: "no such currency", "TypeError: x is undefined". */
function messageOf(error) {
  if (!(error instanceof Error)) {
    return `threw ${describe(error)}`;
  }
  const plain = ["Error", "Deny", "Permanent", "Retry"].includes(error.name);
  return (plain && error.message) || String(error);
}

function describe(value) {
  if (Array.isArray(value)) {
    return "a list";
  }
  return typeof value === "string" ? JSON.stringify(value.slice(0, 80)) : typeof value === "object" && value ? "an object" : String(value);
}
