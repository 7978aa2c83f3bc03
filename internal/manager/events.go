package manager

import (
	"cmp"
	"context"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// eventWriter records events on objects.
type eventWriter struct {
	queue               *eventQueue
	component, instance string
}

func newEventWriter(client rest.Interface, o Options, metrics *serving.Metrics) *eventWriter {
	queue := newEventQueue(eventSink{client}, o, maxQueuedEvents, metrics.ObserveDroppedEvent)
	return &eventWriter{queue: queue, component: cmp.Or(o.Name, programName), instance: serving.InstanceName()}
}

func (e *eventWriter) close() { e.queue.close() }

// maxEventMessage is the longest message the API server accepts.
const maxEventMessage = 1024

// eventText returns a message for an event. Roles in one that is too long are left out as a whole, since a
// part of them cannot be applied; rest says where they are.
func eventText(message, rest string) string {
	if len(message) <= maxEventMessage {
		return message
	}
	first, _, _ := strings.Cut(message, "\n")
	return truncateText(first, maxEventMessage-len(rest)) + rest
}

// truncateText returns at most limit bytes of a text.
func truncateText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len("…")], "") + "…"
}

// Event records an event on an object.
func (e *eventWriter) Event(o *object.Object, event hook.Event) { e.eventAs("", o, event) }

// eventAs records an event as a user; empty for Setpoint itself.
func (e *eventWriter) eventAs(user string, parent *object.Object, event hook.Event) {
	e.record(user, &corev1.ObjectReference{
		APIVersion: parent.APIVersion(), Kind: parent.Kind(), Namespace: parent.Namespace(), Name: parent.Name(),
		UID: types.UID(parent.UID()), ResourceVersion: parent.ResourceVersion(),
	}, event)
}

// EventAt records an event on an object that is known by name only.
func (e *eventWriter) EventAt(event hook.ObjectEvent) { e.eventAtAs("", event) }

// eventAtAs is EventAt as a user.
func (e *eventWriter) eventAtAs(user string, event hook.ObjectEvent) {
	e.record(user, &corev1.ObjectReference{
		APIVersion: event.APIVersion, Kind: event.Kind, Namespace: event.Namespace, Name: event.Name, UID: types.UID(event.UID),
	}, event.Event)
}

func (e *eventWriter) record(user string, at *corev1.ObjectReference, event hook.Event) {
	made := newEvent(at, metav1.Now())
	made.Type, made.Reason, made.Message = event.Type, event.Reason, truncateText(event.Message, maxEventMessage)
	// The source has no host, so that equal events of several replicas are aggregated.
	made.Source, made.ReportingController, made.ReportingInstance = corev1.EventSource{Component: e.component}, e.component, e.instance
	e.queue.add(&queuedEvent{made, user})
}

// newEvent returns an event on an object. Those on objects without a namespace are in default.
func newEvent(at *corev1.ObjectReference, now metav1.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: util.GenerateEventName(at.Name, now.UnixNano()),
			Namespace: cmp.Or(at.Namespace, metav1.NamespaceDefault)},
		InvolvedObject: *at, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}
}

// eventSink writes events through the shared client.
type eventSink struct{ client rest.Interface }

// store creates an event, or patches the one that it repeats, if that still exists.
func (s eventSink) store(ctx context.Context, user string, of *record.EventCorrelateResult) (*corev1.Event, error) {
	e := of.Event
	if e.Count > 1 {
		req := s.client.Patch(types.StrategicMergePatchType).AbsPath(object.Events.Path(e.Namespace, e.Name))
		if stored, err := s.send(ctx, user, req.Body(of.Patch)); !apply.NotFound(err) {
			return stored, err
		}
	}
	sent := e.DeepCopy()
	sent.TypeMeta, sent.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ""
	return s.send(ctx, user, s.client.Post().AbsPath(object.Events.Path(e.Namespace, "")).Body(sent))
}

// send sends a request as a user; empty for Setpoint itself.
func (s eventSink) send(ctx context.Context, user string, req *rest.Request) (*corev1.Event, error) {
	if user != "" {
		req = req.SetHeader(authentication.ImpersonateUserHeader, user)
	}
	var stored corev1.Event
	return &stored, req.Do(ctx).Into(&stored)
}
