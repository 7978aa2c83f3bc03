// JSON without silent losses: JSON.stringify writes null for NaN, {} for a Map or a Promise, and
// leaves functions out.

/** Encodes a value. A TypeError names the first field that has no JSON form. */
export function encode(value) {
  const fault = firstFault(value, "", []);
  if (fault) {
    throw new TypeError(fault);
  }
  return JSON.stringify(value);
}

/** Returns the path of a field: children[0].metadata.labels["app/name"]. */
export function join(path, key) {
  if (typeof key === "number") {
    return `${path}[${key}]`;
  }
  if (!/^[\w$]+$/.test(key)) {
    return `${path}[${JSON.stringify(key)}]`;
  }
  return path ? `${path}.${key}` : key;
}

function firstFault(given, path, parents) {
  const value = typeof given?.toJSON === "function" ? given.toJSON() : given;
  if (typeof value === "object" && value !== null) {
    return faultOfObject(value, path, parents);
  }
  const kind = faultOfScalar(value);
  return kind && `${path || "the value"} is ${kind}, which has no JSON form`;
}

function faultOfScalar(value) {
  switch (typeof value) {
    case "number":
      return Number.isFinite(value) ? "" : String(value);
    case "string":
      return /\p{Surrogate}/u.test(value) ? "not valid Unicode" : "";
    case "boolean":
    case "object": // null
      return "";
    case "undefined":
      return "undefined";
    default:
      return `a ${typeof value}`;
  }
}

function faultOfObject(value, path, parents) {
  if (parents.includes(value)) {
    return `${path} contains itself`;
  }
  const type = Object.prototype.toString.call(value).slice("[object ".length, -1);
  if (type !== "Object" && type !== "Array") {
    return `${path || "the value"} is a ${type}, which has no JSON form${type === "Promise" ? ": await it" : ""}`;
  }
  parents.push(value);
  const fault = type === "Array" ? faultOfItems(value, path, parents) : faultOfFields(value, path, parents);
  parents.pop();
  return fault;
}

function faultOfItems(items, path, parents) {
  for (let i = 0; i < items.length; i++) {
    const fault = firstFault(items[i], join(path, i), parents);
    if (fault) {
      return fault;
    }
  }
  return "";
}

function faultOfFields(object, path, parents) {
  for (const [key, value] of Object.entries(object)) {
    // {status: undefined} is the usual way to leave a field out.
    const fault = value === undefined ? "" : firstFault(value, join(path, key), parents);
    if (fault) {
      return fault;
    }
  }
  return "";
}
