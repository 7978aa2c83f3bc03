// Serves the hooks: each function that sync.mjs exports, at the path of its name.
// It needs only Node's standard library.

import { createServer } from "node:http";
import process from "node:process";
import { json } from "node:stream/consumers";

import * as hooks from "./sync.mjs";

async function respond(request) {
  const hook = hooks[request.url.slice(1)];
  if (!hook || request.method !== "POST") {
    return [404, { error: `no hook at ${request.method} ${request.url}` }];
  }
  try {
    return [200, hook(await json(request))];
  } catch (problem) {
    console.error(problem);
    return [500, { error: problem.message }];
  }
}

const server = createServer(async (request, response) => {
  const [status, body] = await respond(request);
  const text = Buffer.from(JSON.stringify(body));
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": text.length }).end(text);
});
server.keepAliveTimeout = 120_000; // longer than Setpoint's, so that Setpoint closes idle connections

server.listen(Number(process.env.PORT ?? 80), process.env.HOST, () => {
  console.error(`listening on port ${server.address().port}`);
});
process.on("SIGTERM", () => server.close()); // process 1 of a container ignores SIGTERM unless it has a handler
