package userclient

import (
	"cmp"
	"context"
	"slices"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Event is an event of an object.
type Event struct {
	// Type is "Normal" or "Warning".
	Type    string
	Reason  string
	Message string
	// Source is the component that reported it.
	Source string
	// Count is how often it occurred between First and Last.
	Count       int
	First, Last time.Time
}

// Events returns the events of an object, newest first.
func (c *Client) Events(ctx context.Context, ref object.Ref) ([]Event, error) {
	about := fields.Set{"involvedObject.kind": ref.Kind.Kind, "involvedObject.name": ref.Name}
	if ref.UID != "" {
		about["involvedObject.uid"] = ref.UID
	}
	in := object.Ref{
		Kind:      object.Kind{Version: "v1", Plural: "events", Namespaced: true},
		Namespace: cmp.Or(ref.Namespace, "default"), // Events of cluster-scoped objects are there.
	}
	var list core.EventList
	parameters := map[string]string{"fieldSelector": about.AsSelector().String(), "limit": pageSize}
	if err := c.list(ctx, mediaTypeJSON, in, parameters, &list); err != nil {
		return nil, err
	}
	events := lists.Map(list.Items, readEvent)
	slices.SortStableFunc(events, func(a, b Event) int { return b.Last.Compare(a.Last) })
	return events, nil
}

// readEvent converts an event of either API version.
func readEvent(e core.Event) Event {
	event := Event{
		Type: e.Type, Reason: e.Reason, Message: e.Message, Count: max(1, int(e.Count)),
		Source: cmp.Or(e.ReportingController, e.Source.Component), First: e.FirstTimestamp.Time, Last: e.LastTimestamp.Time,
	}
	if e.Series != nil {
		event.Count, event.Last = int(e.Series.Count), e.Series.LastObservedTime.Time
	}
	if event.First.IsZero() {
		event.First = cmp.Or(e.EventTime.Time, e.CreationTimestamp.Time)
	}
	if event.Last.IsZero() {
		event.Last = event.First
	}
	return event
}
