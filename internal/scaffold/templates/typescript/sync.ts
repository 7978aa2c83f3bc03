<%if .HasStatus%>import { child } from "./setpoint/index.js";
<%end%>import type { <%.Base%>SyncRequest, <%.Base%>SyncResponse } from "./setpoint_types.d.ts";

/**
 * Returns the children and the status that a <%.Kind%> should have. Setpoint calls it when the <%.Kind%> or a child
 * changes, and creates, updates or deletes what differs.
 */
export function sync({ parent, children }: <%.Base%>SyncRequest): <%.Base%>SyncResponse {
  const { name } = parent.metadata;
  return {
<%- if .HasStatus%>
    status: { ready: ([<%range $i, $c := .Children%><%if $i%>, <%end%>"<%.Key%>"<%end%>] as const).every((kind) => child(children, kind, name)) },
<%- end%>
    children: [
<%.Objects "javascript" 6%>
    ],
  };
}
