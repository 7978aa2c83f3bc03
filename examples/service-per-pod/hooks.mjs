// The hooks of the service-per-pod controller.
//
// Setpoint posts a StatefulSet that has the annotation below, with its attached
// Services; the response has the desired Services.

const PORTS = "service-per-pod.examples.setpoint.dev/ports";
const POD_NAME = "statefulset.kubernetes.io/pod-name"; // a label that every pod of a StatefulSet has

/** Returns the desired Services of a StatefulSet: one for each of its pods. */
export function sync({ object }) {
  const ports = object.metadata.annotations[PORTS].split(",").map(parsePort);
  const { replicas, ordinals } = object.spec;
  const names = Array.from({ length: replicas }, (_, i) => `${object.metadata.name}-${(ordinals?.start ?? 0) + i}`);
  return { attachments: names.map((name) => makeService(name, ports)) };
}

/** Removes all Services when the StatefulSet is deleted, or loses the annotation. */
export function finalize({ attachments }) {
  return { attachments: [], finalized: Object.keys(attachments["Service.v1"]).length === 0 };
}

/** Reads PORT or PORT:TARGET, such as 80:8080. */
function parsePort(text) {
  const [, port, target] = text.trim().match(/^(\d+)(?::(\d+))?$/) ?? [];
  if (!port) {
    throw new Error(`annotation ${PORTS}: want PORT or PORT:TARGET, such as 80:8080, found "${text}"`);
  }
  return { name: `port-${port}`, port: Number(port), targetPort: Number(target ?? port) };
}

function makeService(name, ports) {
  return { apiVersion: "v1", kind: "Service", metadata: { name }, spec: { selector: { [POD_NAME]: name }, ports } };
}
