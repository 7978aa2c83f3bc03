// Serves sync over HTTP, at $HOST and $PORT.
import { composite, serve } from "./setpoint/index.js";
import { sync } from "./sync.ts";

await serve(composite({ sync }));
