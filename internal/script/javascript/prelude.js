// The code around the author's code. It runs first in each VM, takes what it needs of the
// globals, and hands functions to Go that the author's code cannot reach: whatever that code does
// to its globals, these go on to work. It also makes the VM deterministic.
(function (print) {
  "use strict";
  const { apply, construct, defineProperty, deleteProperty, getPrototypeOf, ownKeys } = Reflect;
  const { stringify, rawJSON } = JSON;
  const { isArray } = Array;
  const { isError } = Error;
  const { imul } = Math;
  const NativeDate = Date, NativeError = Error, NativeMap = Map, NativeSet = Set, NativeString = String, NativeTypeError = TypeError;
  const NativeInternalError = InternalError; // a limit of the engine
  const { isPrototypeOf } = Object.prototype;
  const iterator = getPrototypeOf(function* () {}.prototype), asyncIterator = getPrototypeOf(async function* () {}.prototype);
  const dateToString = NativeDate.prototype.toString;

  const hide = (object, name, value) =>
    defineProperty(object, name, { __proto__: null, value, writable: true, configurable: true });

  // Memory that threads share does not fit one call at a time.
  deleteProperty(globalThis, "Atomics");
  deleteProperty(globalThis, "SharedArrayBuffer");
  deleteProperty(globalThis, "eval");

  // The clock stands still during a call.
  let now = 0;
  function FixedDate(year, month, day, hours, minutes, seconds, ms) {
    if (new.target === undefined) return apply(dateToString, new NativeDate(now), []);
    return construct(NativeDate, arguments.length === 0 ? [now] : arguments, new.target);
  }
  defineProperty(FixedDate, "name", { __proto__: null, value: "Date" });
  defineProperty(FixedDate, "prototype", { __proto__: null, value: NativeDate.prototype, writable: false });
  hide(FixedDate, "now", { now: () => now }.now);
  hide(FixedDate, "parse", NativeDate.parse);
  hide(FixedDate, "UTC", NativeDate.UTC);
  hide(NativeDate.prototype, "constructor", FixedDate);
  hide(globalThis, "Date", FixedDate);

  // sfc32, of Chris Doty-Humphrey's PractRand.
  let a = 0, b = 0, c = 0, counter = 1;
  function bits() {
    const sum = (a + b | 0) + counter | 0;
    counter = counter + 1 | 0;
    a = b ^ b >>> 9;
    b = c + (c << 3) | 0;
    c = (c << 21 | c >>> 11) + sum | 0;
    return sum;
  }
  hide(Math, "random", { random: () => ((bits() >>> 5) * 67108864 + (bits() >>> 6)) / 9007199254740992 }.random);

  function begin(start) {
    now = start[0];
    a = start[1] | 0;
    b = start[2] | 0;
    c = imul(a ^ b, 0x9e3779b9);
    counter = 1;
    for (let i = 0; i < 12; i++) bits();
  }

  function show(value) {
    if (typeof value === "string") return value;
    if (typeof value === "function") return `[function ${value.name}]`;
    try {
      if (isError(value)) return value.name === "" ? `${value.message}` : `${value.name}: ${value.message}`;
      return stringify(value, (_, v) => typeof v === "bigint" ? rawJSON(`${v}`) : v) ?? NativeString(value);
    } catch {
      return typeof value;
    }
  }

  const console = {};
  for (const name of ["debug", "error", "info", "log", "warn"]) {
    hide(console, name, { [name](...values) {
      let line = "";
      for (let i = 0; i < values.length; i++) line += (i > 0 ? " " : "") + show(values[i]);
      print(line);
    } }[name]);
  }
  hide(globalThis, "console", console);

  // describe returns what Go needs to know of an exception.
  function describe(thrown) {
    try {
      if (isError(thrown)) {
        const cause = thrown.cause === undefined ? "" : ` (cause: ${show(thrown.cause)})`;
        return stringify({ __proto__: null, message: show(thrown) + cause, stack: `${thrown.stack}` });
      }
    } catch { /* it has properties that throw */ }
    const text = typeof thrown === "string" ? stringify(thrown) : show(thrown);
    return stringify({ __proto__: null, message: `${text} was thrown, which is not an Error and so has no line`, stack: "" });
  }

  // Without these, the response would have an empty object.
  hide(NativeMap.prototype, "toJSON", function toJSON() { throw refusal("a Map is not JSON"); });
  hide(NativeSet.prototype, "toJSON", function toJSON() { throw refusal("a Set is not JSON"); });

  // functions returns the names of the functions that a module exports, in JSON.
  function functions(module) {
    const keys = ownKeys(module);
    let names = "";
    for (let i = 0; i < keys.length; i++) {
      if (typeof module[keys[i]] === "function") names += (names && ",") + stringify(keys[i]);
    }
    return `[${names}]`;
  }

  // respond returns a response in JSON. JSON.stringify alone makes null of some values and leaves
  // out others.
  function respond(response) {
    let text;
    if (typeof response !== "object" || response === null) throw refusal(`the function returned ${show(response)}, not an object`);
    if (isArray(response)) throw refusal("the function returned an array, not an object");
    if (isGenerator(response)) throw refusal("the function returned a generator, not an object");
    try {
      text = stringify(response, checked);
    } catch (error) {
      if (error instanceof NativeInternalError) throw error;
      let found;
      try { found = problem(response, "response", []); } catch { /* the first exception says it */ }
      throw found === undefined ? error : refusal(found);
    }
    if (typeof text !== "string" || text[0] !== "{") throw refusal(`toJSON of the response returned ${text}, not an object`);
    return text;
  }

  const isGenerator = value => apply(isPrototypeOf, iterator, [value]) || apply(isPrototypeOf, asyncIterator, [value]);

  function refusal(message) {
    const error = new NativeTypeError(message);
    defineProperty(error, "name", { __proto__: null, value: "" });
    return error;
  }

  function checked(key, value) {
    switch (typeof value) {
      case "number":
        if (value - value === 0) return value;
        break;
      case "bigint":
        if (isInt64(value)) return rawJSON(`${value}`);
        break;
      case "undefined":
        if (!isArray(this)) return value;
        break;
      case "function": case "symbol":
        break;
      default:
        return value;
    }
    throw refusal(`${key} is not JSON`);
  }

  const isInt64 = n => n >= -9223372036854775808n && n <= 9223372036854775807n;

  // problem says which value of a response is not JSON.
  function problem(value, path, above, key = "") {
    switch (typeof value) {
      case "number": return value - value === 0 ? undefined : `${path} is ${value}, which JSON does not have`;
      case "bigint": return isInt64(value) ? undefined : `${path} is ${value}, which is not a 64-bit integer`;
      case "function": return `${path} is a function`;
      case "symbol": return `${path} is a symbol`;
      case "object":
        if (value === null) return;
        if (value instanceof NativeMap) return `${path} is a Map: return Object.fromEntries(map)`;
        if (value instanceof NativeSet) return `${path} is a Set: return [...set]`;
        if (typeof value.toJSON === "function") return problem(value.toJSON(key), path, above);
        return problemWithin(value, path, above);
    }
  }

  function problemWithin(object, path, above) {
    for (let i = 0; i < above.length; i++) {
      if (above[i] === object) return `${path} contains itself`;
    }
    above[above.length] = object;
    for (const key in object) {
      const where = isArray(object) ? `${path}[${key}]` : `${path}.${key}`;
      const found = problem(object[key], where, above, key);
      if (found !== undefined) return found;
    }
    for (let i = 0; isArray(object) && i < object.length; i++) {
      if (object[i] === undefined) return `${path}[${i}] is undefined`;
    }
    above.length--;
  }

  // exact parses JSON whose integers a number cannot hold: these become BigInts.
  const { parse } = JSON;
  const { isInteger, isSafeInteger } = Number;
  const toBigInt = BigInt;
  function exact(text) {
    return parse(text, (_, value, { source }) =>
      isInteger(value) && !isSafeInteger(value) && isDigits(source) ? toBigInt(source) : value);
  }

  function isDigits(source) {
    for (let i = 0; i < source.length; i++) {
      if (source[i] === "." || source[i] === "e" || source[i] === "E") return false;
    }
    return true;
  }

  // where returns the stack of the code that runs.
  const where = () => new NativeError().stack;

  return { begin, describe, exact, functions, respond, where };
})
