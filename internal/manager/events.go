package manager

import (
	"cmp"
	"context"
	"strings"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// eventWriter records events on objects. client-go's recorder aggregates repeated ones.
type eventWriter struct {
	broadcaster record.EventBroadcaster
	recorder    record.EventRecorder
}

func newEventWriter(client rest.Interface, o Options) *eventWriter {
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{QPS: o.EventsQPS, BurstSize: o.EventsBurst})
	broadcaster.StartRecordingToSink(eventSink{client, serving.InstanceName()})
	recorder := broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: cmp.Or(o.Name, programName)})
	return &eventWriter{broadcaster: broadcaster, recorder: recorder}
}

func (e *eventWriter) close() { e.broadcaster.Shutdown() }

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

// userAnnotation has the user of an event between the recorder and the sink. It is not stored.
const userAnnotation = "setpoint.dev/as"

func (e *eventWriter) record(user string, at *corev1.ObjectReference, event hook.Event) {
	message := truncateText(event.Message, maxEventMessage)
	var annotations map[string]string
	if user != "" {
		annotations = map[string]string{userAnnotation: user}
	}
	e.recorder.AnnotatedEventf(at, annotations, event.Type, event.Reason, "%s", message)
}

// eventSink writes events through the shared client, with the reporting instance.
type eventSink struct {
	client   rest.Interface
	instance string
}

// Create sets the reporting instance. The source has no host, so that equal events of
// several replicas are aggregated.
func (s eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	e.ReportingInstance = s.instance
	return s.send(s.client.Post().AbsPath(object.Events.Path(e.Namespace, "")), e)
}

func (s eventSink) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.send(s.client.Put().AbsPath(object.Events.Path(e.Namespace, e.Name)), e)
}

func (s eventSink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	req := s.client.Patch(types.StrategicMergePatchType).AbsPath(object.Events.Path(e.Namespace, e.Name))
	return s.store(req.Body(patch), e)
}

func (s eventSink) send(req *rest.Request, e *corev1.Event) (*corev1.Event, error) {
	sent := e.DeepCopy()
	sent.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}
	delete(sent.Annotations, userAnnotation)
	return s.store(req.Body(sent), e)
}

// store sends a request as the user of an event.
func (s eventSink) store(req *rest.Request, e *corev1.Event) (*corev1.Event, error) {
	if user := e.Annotations[userAnnotation]; user != "" {
		req = req.SetHeader(authentication.ImpersonateUserHeader, user)
	}
	var stored corev1.Event
	return &stored, req.Do(context.Background()).Into(&stored)
}
