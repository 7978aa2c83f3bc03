import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Agent, request as httpRequest } from "node:http";
import { test } from "node:test";

import { composite, handlers, serve } from "../index.js";

const local = { port: 0, host: "127.0.0.1", signals: false };

/** Sends a request; resolves to its status, headers and text. */
function send(port, path, { body, method = "POST", ...options } = {}) {
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: "127.0.0.1", port, path, method, ...options }, async (response) => {
      const chunks = await response.toArray();
      resolve({ status: response.statusCode, headers: response.headers, text: Buffer.concat(chunks).toString() });
    });
    request.on("error", reject);
    request.end(body);
  });
}

test("calls hooks over kept connections", async (t) => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const server = await serve([composite({ sync: ({ parent }) => ({ children: [], status: { name: parent.metadata.name } }) }), handlers({ publish: () => {} })], local);
  t.after(() => { agent.destroy(); return server.close(); });
  const body = JSON.stringify({ parent: { metadata: { name: "tøm" } } });
  for (let i = 0; i < 3; i++) {
    const { status, headers, text } = await send(server.port, "/sync", { body, agent });
    assert.deepEqual([status, headers["content-type"], JSON.parse(text)], [200, "application/json", { children: [], status: { name: "tøm" } }]);
    assert.equal(headers["content-length"], String(Buffer.byteLength(text)));
    assert.equal(headers.connection, "keep-alive");
  }
  assert.equal((await send(server.port, "/publish?timeout=10s", { body: "{}", agent })).text, "{}");
});

test("bad requests get errors that say what to do", async (t) => {
  const server = await serve(composite({ sync: () => ({ children: [] }) }), { ...local, maxBodyBytes: 100 });
  t.after(() => server.close());
  for (const [path, options, status, text] of [
    ["/sink", {}, 404, /^no hook at \/sink; there are \/sync$/],
    ["/__proto__", {}, 404, /^no hook at/],
    ["/sync", { method: "GET" }, 405, /^\/sync must be called by POST, not GET$/],
    ["/sync", { body: "" }, 400, /^the request is not valid: /],
    ["/sync", { body: "{" }, 400, /JSON/],
    ["/sync", { body: "[]" }, 400, /must be a JSON object/],
    ["/sync", { body: Buffer.from([0x22, 0xe9, 0x22]) }, 400, /encoded data was not valid/],
    ["/sync", { body: " ".repeat(101) }, 413, /^the request exceeds 100 bytes$/],
    ["/sync", { body: " ".repeat(1 << 20), headers: { "Transfer-Encoding": "chunked" } }, 413, /exceeds 100 bytes/],
    ["/healthz", { method: "GET" }, 200, /^ok$/],
    ["/sync", { body: "{}" }, 200, /^{"children":\[\]}$/],
  ]) {
    const response = await send(server.port, path, options);
    assert.equal(response.status, status, `${path} ${response.text}`);
    assert.match(response.text, text);
  }
});

test("an error is logged with its object, and the next call works", async (t) => {
  const lines = t.mock.method(console, "error", () => {});
  const hook = ({ parent }) => ({ children: [], status: { name: parent.metadata.name.toUpperCase() } });
  const server = await serve(composite({ sync: hook }), local);
  t.after(() => server.close());
  const bad = await send(server.port, "/sync", { body: '{"parent": {"kind": "Cat", "metadata": {"namespace": "home", "name": 1}}}' });
  assert.deepEqual([bad.status, bad.text], [500, "TypeError: parent.metadata.name.toUpperCase is not a function"]);
  assert.equal((await send(server.port, "/sync", { body: '{"parent": {"metadata": {"name": "a"}}}' })).status, 200);
  const [text, error] = lines.mock.calls.at(-1).arguments;
  assert.equal(text, "/sync Cat/home/1:");
  assert.match(error.stack, /server\.test\.js/);
});

test("a client that goes away aborts the call, and the next one works", async (t) => {
  t.mock.method(console, "error", () => {});
  const aborted = resolvers();
  const started = resolvers();
  const publish = async (_, { signal }) => {
    signal.addEventListener("abort", aborted.resolve);
    started.resolve();
    await aborted.promise;
  };
  const server = await serve(handlers({ publish, other: () => {} }), local);
  t.after(() => server.close());
  const request = httpRequest({ host: "127.0.0.1", port: server.port, path: "/publish", method: "POST" });
  request.on("error", () => {});
  request.end("{}");
  await started.promise;
  request.destroy();
  await aborted.promise;
  const half = httpRequest({ host: "127.0.0.1", port: server.port, path: "/publish", method: "POST", headers: { "Content-Length": 10 } });
  half.on("error", () => {});
  await new Promise((resolve) => half.write("{", resolve));
  half.destroy();
  assert.equal((await send(server.port, "/other", { body: "{}" })).status, 200);
});

test("a hook has the trace of its call", async (t) => {
  const server = await serve(handlers({ publish: (_, { traceContext }) => ({ status: traceContext }) }), local);
  t.after(() => server.close());
  const traceContext = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "a=b" };
  for (const headers of [traceContext, {}]) {
    assert.deepEqual(JSON.parse((await send(server.port, "/publish", { body: "{}", headers })).text), { status: headers });
  }
});

test("close waits for running calls, and not for idle connections", async () => {
  const [started, end] = [resolvers(), resolvers()];
  const agent = new Agent({ keepAlive: true });
  const server = await serve(handlers({ slow: async () => { started.resolve(); await end.promise; }, fast: () => {} }), local);
  assert.equal((await send(server.port, "/fast", { body: "{}", agent })).status, 200);
  const running = send(server.port, "/slow", { body: "{}", agent });
  await started.promise;
  const closed = server.close();
  end.resolve();
  assert.equal((await running).status, 200);
  await closed;
  await assert.rejects(send(server.port, "/fast", { body: "{}" }), { code: "ECONNREFUSED" });
  agent.destroy();
});

test("mistakes are found before the server listens", async (t) => {
  const routes = composite({ sync: () => ({}) });
  const server = await serve(routes, local);
  t.after(() => server.close());
  await assert.rejects(serve(routes, { ...local, port: server.port }), /^Error: listen on 127\.0\.0\.1, port \d+: EADDRINUSE; set PORT and HOST$/);
  await assert.rejects(serve([routes, routes], local), /two hooks have the path \/sync; give one of them a prefix/);
  await assert.rejects(serve({ sync: {} }, local), /sync must be a function; use composite, decorator, handlers or admission/);
  for (const port of ["x", "70000", "", "-1"]) {
    const child = run({ PORT: port });
    assert.deepEqual(await once(child, "close"), [1, null]);
    assert.match(child.errors(), new RegExp(`PORT must be a number from 0 to 65535, is "${port}"`));
  }
});

for (const signal of ["SIGTERM", "SIGINT"]) {
  test(`${signal} ends the process after the running call`, async () => {
    const child = run({ PORT: "0", HOST: "127.0.0.1" });
    const [, port] = (await line(child)).match(/^listening on port (\d+): POST \/slow$/);
    const running = send(Number(port), "/slow", { body: "{}", agent: new Agent({ keepAlive: true }) });
    assert.equal(await line(child), "started");
    const exit = once(child, "exit");
    child.kill(signal);
    assert.equal((await running).text, '{"message":"done"}');
    assert.deepEqual(await exit, [0, null]);
  });
}

function run(env) {
  const program = `
    import { handlers, serve } from ${JSON.stringify(new URL("../index.js", import.meta.url).href)};
    await serve(handlers({ slow: () => new Promise((resolve) => {
      process.once("SIGTERM", () => resolve({ message: "done" }));
      process.once("SIGINT", () => resolve({ message: "done" }));
      console.error("started");
    }) }));`;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], { env, stdio: ["ignore", "ignore", "pipe"] });
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (chunk) => { text += chunk; });
  child.errors = () => text;
  child.lines = 0;
  return child;
}

/** Returns the next line of a child's standard error. */
async function line(child) {
  const at = child.lines++;
  while (child.errors().split("\n").length <= at + 1) {
    await once(child.stderr, "data");
  }
  return child.errors().split("\n")[at];
}

function resolvers() {
  const all = {};
  all.promise = new Promise((resolve) => { all.resolve = resolve; });
  return all;
}
