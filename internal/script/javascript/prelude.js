// The code around the author's code. It runs first in each VM, takes what it needs of the
// globals, and hands functions to Go that the author's code cannot reach: whatever that code does
// to its globals, these go on to work. It also makes the VM deterministic.
(function (natives) {
  "use strict";
  const { print, encodeText, decodeText } = natives; // functions in Go
  const { apply, construct, defineProperty, deleteProperty, ownKeys } = Reflect;
  const { stringify, rawJSON } = JSON;
  const { isError } = Error;
  const { hasOwn, keys: keysOf } = Object;
  const { imul } = Math;
  const NativeDate = Date, NativeError = Error, NativeRangeError = RangeError, NativeRegExp = RegExp, NativeString = String, NativeTypeError = TypeError;
  const dateToString = NativeDate.prototype.toString;

  const hide = (object, name, value) =>
    defineProperty(object, name, { __proto__: null, value, writable: true, configurable: true });

  // Memory that threads share does not fit one call at a time.
  deleteProperty(globalThis, "Atomics");
  deleteProperty(globalThis, "SharedArrayBuffer");
  deleteProperty(globalThis, "eval");

  // observed is whether code has used what may differ from call to call: the clock, random numbers, or the log.
  let observed = false;
  const differs = () => observed;

  // The clock stands still during a call.
  let time = 0;
  const now = () => (observed = true, time);
  function FixedDate(year, month, day, hours, minutes, seconds, ms) {
    if (new.target === undefined) return apply(dateToString, new NativeDate(now()), []);
    return construct(NativeDate, arguments.length === 0 ? [now()] : arguments, new.target);
  }
  defineProperty(FixedDate, "name", { __proto__: null, value: "Date" });
  defineProperty(FixedDate, "prototype", { __proto__: null, value: NativeDate.prototype, writable: false });
  hide(FixedDate, "now", { now: () => now() }.now);
  hide(FixedDate, "parse", NativeDate.parse);
  hide(FixedDate, "UTC", NativeDate.UTC);
  hide(NativeDate.prototype, "constructor", FixedDate);
  hide(globalThis, "Date", FixedDate);

  // sfc32, of Chris Doty-Humphrey's PractRand.
  let a = 0, b = 0, c = 0, counter = 1, mixed = false;
  function bits() {
    const sum = (a + b | 0) + counter | 0;
    counter = counter + 1 | 0;
    a = b ^ b >>> 9;
    b = c + (c << 3) | 0;
    c = (c << 21 | c >>> 11) + sum | 0;
    return sum;
  }
  function random() {
    observed = true;
    for (let i = 0; i < 12 && !mixed; i++) bits();
    mixed = true;
    return ((bits() >>> 5) * 67108864 + (bits() >>> 6)) / 9007199254740992;
  }
  hide(Math, "random", { random: () => random() }.random);

  function begin(start) {
    time = start[0];
    a = start[1] | 0;
    b = start[2] | 0;
    c = imul(a ^ b, 0x9e3779b9);
  }

  function show(value) {
    if (typeof value === "string") return value;
    if (typeof value === "function") return `[function ${value.name}]`;
    try {
      if (value instanceof NativeRegExp) return `${value}`;
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
      observed = true;
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

  // What objects stand for, as JSON.stringify has it.
  const valueOfBoolean = Boolean.prototype.valueOf, valueOfBigInt = BigInt.prototype.valueOf;
  const numberOf = object => +object;
  const booleanOf = object => apply(valueOfBoolean, object, []);
  const bigIntOf = object => apply(valueOfBigInt, object, []);

  // What code needs for Secrets. The engine has base64 of Uint8Array only.
  const { fromBase64, prototype: { toBase64 } } = Uint8Array;
  const { isView } = ArrayBuffer;
  const { fromCharCode } = NativeString;
  const Bytes = Uint8Array;

  hide(globalThis, "btoa", { btoa(data) {
    const text = `${data}`, bytes = new Bytes(text.length);
    for (let i = 0; i < text.length; i++) {
      bytes[i] = text.charCodeAt(i);
      if (text.charCodeAt(i) > 255) throw new NativeTypeError("btoa takes characters up to U+00FF; for others, use new TextEncoder().encode(text).toBase64()");
    }
    return apply(toBase64, bytes, []);
  } }.btoa);
  hide(globalThis, "atob", { atob(data) {
    const bytes = apply(fromBase64, Bytes, [`${data}`]);
    let text = "";
    for (let i = 0; i < bytes.length; i++) text += fromCharCode(bytes[i]);
    return text;
  } }.atob);
  hide(globalThis, "TextEncoder", class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return new Bytes(encodeText(`${text}`.toWellFormed())); }
  });
  hide(globalThis, "TextDecoder", class TextDecoder {
    #fatal; #ignoreBOM;
    constructor(encoding = "utf-8", { fatal = false, ignoreBOM = false } = {}) {
      if (encoding !== "utf-8" && encoding !== "utf8") throw new NativeRangeError(`TextDecoder knows utf-8 only, and not ${encoding}`);
      this.#fatal = !!fatal;
      this.#ignoreBOM = !!ignoreBOM;
    }
    get encoding() { return "utf-8"; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(data = new Bytes()) {
      const bytes = isView(data) ? new Bytes(data.buffer, data.byteOffset, data.byteLength) : new Bytes(data);
      const text = decodeText(bytes.slice().buffer);
      if (this.#fatal && new Bytes(encodeText(text)).length !== bytes.length) throw new NativeTypeError("the data is not UTF-8");
      return !this.#ignoreBOM && text[0] === "\uFEFF" ? text.slice(1) : text;
    }
  });

  // child is that of the package for JavaScript.
  hide(globalThis, "child", { child(groups, kind, name) {
    const group = groups[kind];
    if (group === undefined) throw new NativeTypeError(`there are no objects ${kind}: there are ${keysOf(groups).join(", ") || "none"}`);
    if (hasOwn(group, name)) return group[name];
    const keys = keysOf(group).filter(key => key.endsWith(`/${name}`));
    if (keys.length > 1) throw new NativeTypeError(`there are several ${kind} ${name}: name one of ${keys.join(", ")}`);
    return group[keys[0]];
  } }.child);

  // functions returns the names of the functions that a module exports, in JSON.
  function functions(module) {
    const keys = ownKeys(module);
    let names = "";
    for (let i = 0; i < keys.length; i++) {
      if (typeof module[keys[i]] === "function") names += (names && ",") + stringify(keys[i]);
    }
    return `[${names}]`;
  }

  // where returns the stack of the code that runs.
  const where = () => new NativeError().stack;

  return { begin, bigInt: BigInt, bigIntOf, booleanOf, describe, differs, functions, numberOf, refuseJSON, show, where };
})
