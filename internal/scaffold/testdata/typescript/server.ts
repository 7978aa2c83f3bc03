// Serves sync over HTTP.
import { createServer } from "node:http";
import { json } from "node:stream/consumers";

import type { GuitarShopSyncRequest } from "./setpoint_types.d.ts";
import { sync } from "./sync.ts";

const server = createServer(async (request, response) => {
  try {
    const desired = sync((await json(request)) as GuitarShopSyncRequest);
    response.setHeader("Content-Type", "application/json").end(JSON.stringify(desired));
  } catch (error) {
    console.error(error);
    response.writeHead(500).end(String(error));
  }
});

server.listen(Number(process.env["PORT"] ?? 8080), process.env["HOST"]);
process.on("SIGTERM", () => server.close());
