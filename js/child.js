/**
 * Returns an object of a group by its name, or undefined. Keys of namespaced objects are namespace/name in
 * requests of version v2; a name alone finds them as well, unless objects in several namespaces have it.
 */
export function child(groups, kind, name) {
  const group = groups[kind];
  if (group === undefined) {
    throw new TypeError(`there are no objects ${kind}: there are ${Object.keys(groups).join(", ") || "none"}`);
  }
  if (Object.hasOwn(group, name)) {
    return group[name];
  }
  const keys = Object.keys(group).filter((key) => key.endsWith(`/${name}`));
  if (keys.length > 1) {
    throw new TypeError(`there are several ${kind} ${name}: name one of ${keys.join(", ")}`);
  }
  return group[keys[0]];
}
