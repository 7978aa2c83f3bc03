const finishedPhases = ["Succeeded", "Failed"];

export function sync({ parent, children }) {
  const name = parent.metadata.name + "-immortalpod";
  const observed = children["Pod.v1"][name];
  const finished = finishedPhases.includes(observed?.status?.phase);
  return {
    status: { currentPod: observed && !finished ? name : "" },
    children: finished ? [] : [pod(name, parent.spec.image)],
  };
}

const pod = (name, image) => ({
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name },
  spec: { restartPolicy: "OnFailure", containers: [{ name: "immortal", image }] },
});
