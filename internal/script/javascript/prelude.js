// The code around the author's code. It runs first in each VM, takes what it needs of the
// globals, and hands functions to Go that the author's code cannot reach: whatever that code does
// to its globals, these go on to work. It also makes the VM deterministic.
(function (print) {
  "use strict";
  const { apply, construct, defineProperty, deleteProperty, ownKeys } = Reflect;
  const { stringify, rawJSON } = JSON;
  const { isError } = Error;
  const { imul } = Math;
  const NativeDate = Date, NativeError = Error, NativeString = String, NativeTypeError = TypeError;
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

  // Without it, JSON would have an empty object. Go refuses the same in a response, with its path.
  const refuseJSON = function toJSON() {
    const error = new NativeTypeError("a Map or a Set is not JSON");
    defineProperty(error, "name", { __proto__: null, value: "" });
    throw error;
  };
  hide(Map.prototype, "toJSON", refuseJSON);
  hide(Set.prototype, "toJSON", refuseJSON);

  // functions returns the names of the functions that a module exports, in JSON.
  function functions(module) {
    const keys = ownKeys(module);
    let names = "";
    for (let i = 0; i < keys.length; i++) {
      if (typeof module[keys[i]] === "function") names += (names && ",") + stringify(keys[i]);
    }
    return `[${names}]`;
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

  return { begin, describe, exact, functions, refuseJSON, show, where };
})
