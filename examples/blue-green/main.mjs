// Serves the hook at the path of its name: /sync.

import { composite, serve } from "setpoint";

import { sync } from "./sync.mjs";

await serve(composite({ sync }));
