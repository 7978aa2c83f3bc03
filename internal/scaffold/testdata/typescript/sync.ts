import { child } from "./setpoint/index.js";
import type { GuitarShopSyncRequest, GuitarShopSyncResponse } from "./setpoint_types.d.ts";

/**
 * Returns the children and the status that a Shop should have. Setpoint calls it when the Shop or a child
 * changes, and creates, updates or deletes what differs.
 */
export function sync({ parent, children }: GuitarShopSyncRequest): GuitarShopSyncResponse {
  const { name } = parent.metadata;
  return {
    status: { ready: (["ConfigMap.v1"] as const).every((kind) => child(children, kind, name)) },
    children: [
      {
        apiVersion: "v1",
        kind: "ConfigMap",
        metadata: { name },
        data: { message: parent.spec.message },
      },
    ],
  };
}
