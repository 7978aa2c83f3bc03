export function sync({ parent, children }) {
  const pods = new Map(Object.values(children["Pod.v1"]).map(pod => [ordinal(pod), pod]));
  const count = Math.max(parent.spec.replicas, ...pods.keys());
  const desired = [];
  let ready = 0;
  for (let number = 0; number < count; number++) {
    if (pods.has(number) || ready === number) desired.push(makePod(parent, number));
    if (isReady(pods.get(number))) ready++;
  }
  return {
    status: { replicas: pods.size, readyReplicas: [...pods.values()].filter(isReady).length },
    children: desired.reverse(),
  };
}

const ordinal = pod => Number(pod.metadata.name.split("-").at(-1));

const isReady = pod => pod !== undefined && !pod.metadata.deletionTimestamp
  && (pod.status?.conditions ?? []).some(c => c.type === "Ready" && c.status === "True");

function makePod(parent, number) {
  const { metadata = {}, spec } = parent.spec.template;
  const name = `${parent.metadata.name}-${number}`;
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      labels: { ...metadata.labels, "apps.kubernetes.io/pod-index": `${number}` },
      annotations: metadata.annotations ?? {},
    },
    spec: { ...spec, hostname: name },
  };
}
