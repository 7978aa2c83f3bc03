// The children are as the parent wants them, and those observed that way are ready.
export function sync({parent, children}) {
  const {name} = parent.metadata, {value, children: wanted = 0} = parent.spec
  const observed = Object.values(children["ConfigMap.v1"] ?? {})
  return {
    status: {ready: observed.filter(child => child.data?.value === value).length, value},
    children: Array.from({length: wanted}, (_, j) => ({
      apiVersion: "v1", kind: "ConfigMap", metadata: {name: `${name}-${j}`}, data: {value},
    })),
  }
}
