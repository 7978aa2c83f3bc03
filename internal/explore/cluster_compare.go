package explore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// pairs are the objects of memory on the cluster, by their UIDs.
type pairs struct{ memory, cluster []string }

// add adds the objects that have the same name now.
func (p *pairs) add(memory, cluster *stored) {
	for _, at := range memory.slots {
		other := cluster.get(at.name)
		if at.version == nil || other.version == nil || slices.Contains(p.memory, at.version.object.UID()) {
			continue
		}
		p.memory, p.cluster = append(p.memory, at.version.object.UID()), append(p.cluster, other.version.object.UID())
	}
}

// onCluster returns a text of memory with the UIDs of the cluster.
func (p *pairs) onCluster(text []byte) []byte {
	all := make([]string, 0, 2*len(p.memory))
	for i := range p.memory {
		all = append(all, p.memory[i], p.cluster[i])
	}
	return []byte(strings.NewReplacer(all...).Replace(string(text)))
}

// differences returns how objects that have changed in memory differ on the cluster, a line for each.
func (p *pairs) differences(changed []difference, cluster Stored) []string {
	var all []string
	last := map[object.Ref]*version{}
	for _, c := range changed {
		last[c.after.name.ref] = c.after
	}
	for _, c := range changed {
		ref := c.after.name.ref
		if last[ref] == c.after {
			all = append(all, p.difference(c.after, cluster.get(ref))...)
		}
	}
	return all
}

func (p *pairs) difference(expected *version, got *object.Object) []string {
	ref := expected.name.ref.String()
	switch {
	case expected.gone && got == nil:
		return nil
	case expected.gone:
		return []string{"expected: " + ref + " is gone", "got:      it exists"}
	case got == nil:
		return []string{"expected: " + ref + " exists", "got:      it is gone"}
	}
	var lines []string
	for _, c := range object.KeyedChanges(bare(p.onCluster(expected.object.JSON())), bare(got.JSON())) {
		if !isEmpty(c.From) {
			lines = append(lines, fmt.Sprintf("expected: %s has %s: %s", ref, c.Path, c.From), "got:      "+orAbsent(c.To))
		}
	}
	return lines
}

// bare returns an object without what only one server knows: versions, times, and addresses that it chose. A
// real server has more defaults: what it has besides is left out by the caller.
func bare(data []byte) map[string]any {
	fields, err := object.Decode(data)
	if err != nil {
		return nil // A stored object is valid JSON.
	}
	metadata, _ := fields["metadata"].(map[string]any)
	for _, name := range []string{"uid", "resourceVersion", "generation", "managedFields", "creationTimestamp",
		"deletionGracePeriodSeconds"} {
		delete(metadata, name)
	}
	if spec, _ := fields["spec"].(map[string]any); fields["kind"] == "Service" {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	annotations, _ := metadata["annotations"].(map[string]any)
	for name, value := range annotations {
		if strings.HasPrefix(name, progressPrefix) {
			annotations[name] = withoutDigests(value)
		}
	}
	status, _ := fields["status"].(map[string]any)
	handled, _ := status[handler.HandledStatusField].(map[string]any)
	for name, value := range handled {
		handled[name] = withoutDigests(value)
	}
	withoutTimes(fields)
	return fields
}

// progressPrefix is that of annotations with the progress of handlers.
const progressPrefix = "setpoint.dev/handled-by-"

// withoutDigests returns the progress of handlers as JSON, without the digests of what they have seen: they are also
// of UIDs.
func withoutDigests(progress any) any {
	text, _ := progress.(string)
	fields, err := object.Decode([]byte(text))
	if err != nil {
		return progress
	}
	for _, one := range fields {
		handler, _ := one.(map[string]any)
		for name := range handler {
			if name == "seen" || name == "owned" {
				handler[name] = "a digest"
			}
		}
	}
	return string(encoded(fields))
}

// withoutTimes replaces all times.
func withoutTimes(value any) any {
	switch v := value.(type) {
	case string:
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			return "a time"
		}
	case map[string]any:
		for name, below := range v {
			v[name] = withoutTimes(below)
		}
	case []any:
		for i, below := range v {
			v[i] = withoutTimes(below)
		}
	}
	return value
}

// isEmpty reports whether a value equals one that is absent, as servers leave them out.
func isEmpty(value []byte) bool {
	return slices.Contains([]string{"", "null", "{}", "[]", `""`, "0", "false"}, string(value))
}
