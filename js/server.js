// Serves routes over HTTP.

import { createServer } from "node:http";
import process from "node:process";

import { failure } from "./hooks.js";

// A Kubernetes object has at most 1.5 MiB, and a request many objects.
const MAX_BODY_BYTES = 256 << 20;
// Longer than Setpoint's, so that Setpoint closes idle connections and no call meets a closed one.
const KEEP_ALIVE_MS = 120_000;
// How long running calls may go on after a signal. Setpoint repeats those that are lost.
const STOP_MS = 20_000;

/** Serves routes until SIGTERM or SIGINT. Resolves when the server listens. */
export async function serve(routes, options = {}) {
  const { port = portOf(process.env.PORT), host = process.env.HOST || undefined, signals = true } = options;
  const server = createServer(listener(routes, options));
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  await listen(server, port, host);
  const close = () => stop(server);
  if (signals) {
    stopOnSignals(close);
  }
  const address = server.address();
  console.error(`listening on port ${address.port}: POST ${Object.keys(merge(routes)).join(", ")}`);
  return { port: address.port, close };
}

/** Returns the listener of a server of one's own: https.createServer({key, cert}, listener(routes)). */
export function listener(routes, { maxBodyBytes = MAX_BODY_BYTES } = {}) {
  const all = merge(routes);
  return async (request, response) => {
    const closed = new AbortController();
    response.on("close", () => closed.abort());
    try {
      write(response, await respond(request, all, maxBodyBytes, closed.signal));
    } catch (error) {
      // Only reading fails: the client is gone.
      console.error(`${request.url}: ${error.message}`);
      response.destroy();
    }
  };
}

function merge(routes) {
  const all = new Map();
  for (const [path, route] of [routes].flat().flatMap(Object.entries)) {
    if (typeof route !== "function") {
      throw new TypeError(`${path} must be a function; use composite, decorator, handlers or admission to make routes`);
    }
    if (all.has(path)) {
      throw new TypeError(`two hooks have the path ${path}; give one of them a prefix`);
    }
    all.set(path, route);
  }
  return Object.fromEntries(all);
}

async function respond(request, routes, maxBodyBytes, signal) {
  const path = request.url.split("?", 1)[0];
  if (path === "/healthz" && ["GET", "HEAD"].includes(request.method)) {
    return failure(200, "ok");
  }
  if (!Object.hasOwn(routes, path)) {
    return failure(404, `no hook at ${path}; there are ${Object.keys(routes).join(", ")}`);
  }
  if (request.method !== "POST") {
    return failure(405, `${path} must be called by POST, not ${request.method}`, { Allow: "POST" });
  }
  const body = await read(request, maxBodyBytes);
  if (body === undefined) {
    return failure(413, `the request exceeds ${maxBodyBytes} bytes`, { Connection: "close" });
  }
  let parsed;
  try {
    parsed = parse(body);
  } catch (error) {
    return failure(400, `the request is not valid: ${error.message}`);
  }
  const result = await routes[path](parsed, { signal, traceContext: traceContextOf(request.headers) });
  if ("unexpected" in result) {
    console.error(`${path} ${subjectOf(parsed)}:`, result.unexpected);
  }
  return result;
}

function traceContextOf({ traceparent, tracestate }) {
  return { ...(traceparent && { traceparent }), ...(tracestate && { tracestate }) };
}

/** Reads the body; undefined if it is too large. The rest of it is read too, or the client would miss the response. */
function read(request, limit) {
  return new Promise((resolve, reject) => {
    let chunks = [];
    let size = 0;
    request.on("data", (chunk) => {
      size += chunk.length;
      if (size > limit) {
        chunks = [];
      } else {
        chunks.push(chunk);
      }
    });
    request.on("end", () => resolve(size > limit ? undefined : Buffer.concat(chunks)));
    request.on("error", reject);
  });
}

function parse(body) {
  const request = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(body));
  if (typeof request !== "object" || request === null || Array.isArray(request)) {
    throw new TypeError("must be a JSON object");
  }
  return request;
}

/** Names the object that a request is about, for the log. */
function subjectOf({ parent, object, oldObject }) {
  const { kind, metadata } = parent ?? object ?? oldObject ?? {};
  return [kind, metadata?.namespace, metadata?.name].filter(Boolean).join("/");
}

function write(response, { status, body, text, headers }) {
  const bytes = Buffer.from(body);
  response.writeHead(status, {
    "Content-Type": text ? "text/plain; charset=utf-8" : "application/json",
    "Content-Length": bytes.length,
    ...headers,
  });
  response.end(bytes);
}

function portOf(text = "8080") {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65535) {
    throw new TypeError(`PORT must be a number from 0 to 65535, is ${JSON.stringify(text)}`);
  }
  return Number(text);
}

function listen(server, port, host) {
  return new Promise((resolve, reject) => {
    server.once("error", (error) => {
      reject(new Error(`listen on ${host ?? "all addresses"}, port ${port}: ${error.code}; set PORT and HOST`, { cause: error }));
    });
    server.listen(port, host, resolve);
  });
}

/** Stops: no new calls; running ones end; their connections close, which would wait for the next call. */
function stop(server) {
  server.prependListener("request", (_, response) => response.setHeader("Connection", "close"));
  const closeIdle = setInterval(() => server.closeIdleConnections(), 50);
  const giveUp = setTimeout(() => server.closeAllConnections(), STOP_MS);
  return new Promise((resolve) => {
    server.close(() => {
      clearInterval(closeIdle);
      clearTimeout(giveUp);
      resolve();
    });
    server.closeIdleConnections();
  });
}

// Process 1 of a container ignores a signal without a handler. A second signal ends it at once.
function stopOnSignals(close) {
  const end = async () => {
    await close();
    process.exit();
  };
  process.once("SIGTERM", end);
  process.once("SIGINT", end);
}
