// Serves the hooks: each function that hooks.mjs exports, at the path of its name.
// Node's standard library is all it needs.

import { createServer } from "node:http";
import process from "node:process";
import { json } from "node:stream/consumers";

import * as hooks from "./hooks.mjs";

async function answer(request) {
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
  const [status, body] = await answer(request);
  const text = Buffer.from(JSON.stringify(body));
  response.writeHead(status, { "Content-Type": "application/json", "Content-Length": text.length }).end(text);
});
server.keepAliveTimeout = 120_000; // longer than the asker's, so that it is never the hook that hangs up

server.listen(Number(process.env.PORT ?? 80), process.env.HOST, () => {
  console.error(`answering on port ${server.address().port}`);
});
process.on("SIGTERM", () => server.close()); // as process 1 it would not end by itself
