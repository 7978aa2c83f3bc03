// Lists whatever code can reach: the properties of each object, by descriptors and not by reading
// them, their getters and setters, and their prototypes; from the globals, from the syntax that makes objects
// of hidden classes, and from what the function gets.
import * as self from "./sync.js";

export async function sync(request) {
  const seen = new Map(), reachable = [], queue = [];
  const visit = (value, path) => {
    if ((typeof value !== "object" && typeof value !== "function") || value === null) return;
    if (seen.has(value)) return;
    seen.set(value, path);
    queue.push([value, path]);
  };
  visit(globalThis, "globalThis");
  const hidden = {
    generator: (function* () {})(), asyncGenerator: (async function* () {})(), asyncFunction: async () => {}, classes: class {},
    arguments: (function () { return arguments })(), sloppy: [].values(), map: new Map().entries(), set: new Set().values(), string: ""[Symbol.iterator](),
    regexp: "a".matchAll(/a/g), match: /(?<a>a)/.exec("a"), iteratorHelper: [].values().map(x => x), wrapped: Iterator.from({ next() {} }),
    concat: Iterator.concat ? Iterator.concat([]) : null, template: (s => s)`a`, error: new Error("x"), promise: Promise.resolve(), meta: import.meta,
    proxy: new Proxy({}, {}), bound: (() => {}).bind(), typed: new Uint8Array(1), module: self, imported: await import("./sync.js"), request,
    thrown: (() => { try { null.x } catch (e) { return e } })(), syntax: (() => { try { new RegExp("(") } catch (e) { return e } })(),
    raw: JSON.rawJSON("1"), boxed: [Object(1), Object("a"), Object(true), Object(1n), Object(Symbol())], date: new Date(),
    strict: Object.getOwnPropertyDescriptor((function () { "use strict"; return arguments })(), "callee"), this: [(function () { return this })()],
  };
  for (const [name, value] of Object.entries(hidden)) visit(value, `(${name})`);
  while (queue.length > 0) {
    const [object, path] = queue.shift();
    const names = [];
    for (const key of Reflect.ownKeys(object)) {
      const name = typeof key === "symbol" ? `[${key.description}]` : key;
      names.push(name);
      const { value, get, set } = Object.getOwnPropertyDescriptor(object, key);
      visit(value, `${path}.${name}`);
      visit(get, `${path}.get ${name}`);
      visit(set, `${path}.set ${name}`);
    }
    visit(Object.getPrototypeOf(object), `${path}.(prototype)`);
    reachable.push(`${path}: ${names.sort().join(" ")}`);
  }
  return { reachable: reachable.sort() };
}
