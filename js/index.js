export { child } from "./child.js";
export { Deny, Permanent, Retry, admission, composite, decorator, handlers } from "./hooks.js";
export { listener, serve } from "./server.js";
