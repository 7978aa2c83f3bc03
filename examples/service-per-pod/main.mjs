// Serves the hooks at the paths of their names: /sync and /finalize.

import { decorator, serve } from "setpoint";

import * as hooks from "./hooks.mjs";

await serve(decorator(hooks));
