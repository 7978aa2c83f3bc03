// The sync hook of the BlueGreenDeployment controller.
//
// Setpoint posts a BlueGreenDeployment with its Deployments and its Service; the
// response has the desired ones, and the object's status. It depends only on the
// observed state: the hook stores nothing between calls.

const COLOUR = "examples.setpoint.dev/colour";
const TEMPLATE = "examples.setpoint.dev/template";

/** Returns the desired state for the observed state. */
export function sync({ parent, children }) {
  const { name } = parent.metadata;
  const { replicas, template } = parent.spec;
  const deployments = byName(children["Deployment.apps/v1"]);
  const service = byName(children["Service.v1"])[name];

  const active = service?.spec.selector?.[COLOUR] ?? parent.status?.active ?? "blue";
  const idle = active === "blue" ? "green" : "blue";
  const served = deployments[`${name}-${active}`];
  const next = deployments[`${name}-${idle}`];

  // The served colour keeps its template. The other colour gets a new one.
  const current = templateOf(served) ?? template;
  const upToDate = same(current, template);
  const takesOver = !upToDate && same(templateOf(next), template) && isAvailable(next, replicas);

  // A colour that is no longer served scales to zero, but stays: a rollback uses it.
  const prepared = upToDate ? templateOf(next) : template;

  return {
    status: {
      active: takesOver ? idle : active,
      phase: upToDate || takesOver ? "Serving" : "Preparing",
      availableReplicas: (takesOver ? next : served)?.status?.availableReplicas ?? 0,
    },
    events: takesOver ? [{ type: "Normal", reason: "Switched", message: `${idle} serves now, no longer ${active}` }] : [],
    children: [
      makeService(parent, takesOver ? idle : active),
      makeDeployment(parent, active, current, replicas),
      ...(prepared ? [makeDeployment(parent, idle, prepared, upToDate ? 0 : replicas)] : []),
    ],
  };
}

const byName = (objects) => Object.fromEntries(Object.values(objects).map((o) => [o.metadata.name, o]));

const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);

/** Returns the template of a Deployment as the user wrote it, or null. */
const templateOf = (deployment) => JSON.parse(deployment?.metadata.annotations?.[TEMPLATE] ?? "null");

/** Reports whether all desired pods of a Deployment are available, and no others exist. */
function isAvailable({ metadata, spec, status = {} }, replicas) {
  const counts = [spec.replicas, status.replicas, status.updatedReplicas, status.availableReplicas];
  return status.observedGeneration === metadata.generation && counts.every((count) => count === replicas);
}

const labelsOf = (parent, colour) => ({ "app.kubernetes.io/instance": parent.metadata.name, [COLOUR]: colour });

function makeDeployment(parent, colour, template, replicas) {
  const labels = labelsOf(parent, colour);
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: {
      name: `${parent.metadata.name}-${colour}`,
      annotations: { [TEMPLATE]: JSON.stringify(template) },
    },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { ...template, metadata: { ...template.metadata, labels: { ...template.metadata?.labels, ...labels } } },
    },
  };
}

function makeService(parent, colour) {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: parent.metadata.name },
    spec: { selector: labelsOf(parent, colour), ports: parent.spec.ports },
  };
}
