// Package events sends events on objects to the API server, in the background: equal ones as one, and of each
// object a limited number. What cannot be sent is counted.
package events

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/record/util"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Options configure a Writer.
type Options struct {
	// Component is the source of events, and Instance this process among its replicas.
	Component, Instance string
	// QPS and Burst limit the events on one object per second on average, and at once; by default 1 in 5 minutes,
	// and 25.
	QPS   float32
	Burst int
	// Limit is the number of events that wait to be sent, 10,000 by default.
	Limit int
	// Dropped counts an event that is not sent, with its reason.
	Dropped func(reason string)
	// Log is discarded if nil.
	Log *slog.Logger
}

// Reasons of the metric setpoint_events_dropped_total.
const (
	// QueueFull: too many events wait to be sent. What to do: find what sends so many events: a hook that returns new
	// ones with each response.
	QueueFull = "QueueFull"
	// Rejected: the API server refuses the event. What to do: see the log; a permission to create events may be
	// missing.
	Rejected = "Rejected"
	// Unreachable: the API server did not respond for two minutes, or until Setpoint ended. What to do: look at the
	// API server and the network.
	Unreachable = "Unreachable"
)

// Writer records events on objects, and sends them in the background. client-go's broadcaster has a queue of 1000 and one
// writer, and drops what comes in a burst of many objects. Its correlator aggregates equal events and limits those of one
// object.
type Writer struct {
	options Options
	client  rest.Interface
	// shards have the events by object, so that those of one object are sent in order.
	shards []chan *queued
	// waiting counts the events in all shards, and full means that one was dropped since they were empty.
	waiting atomic.Int64
	full    atomic.Bool

	stopping context.Context //nolint:containedctx // It is that of the senders, which outlive all calls.
	stop     context.CancelFunc
	abort    context.CancelFunc
	running  sync.WaitGroup
}

// queued is an event that is not sent yet, and the user that sends it; empty for Setpoint itself.
type queued struct {
	*corev1.Event

	user string
}

// The limits of the queue. It takes what all workers send in a burst, and the API server gets it from a few senders. An
// event that cannot be sent is retried for two minutes.
const (
	senders    = 4
	maxTries   = 12
	retryDelay = 10 * time.Second
	flushLimit = 2 * time.Second
)

// NewWriter starts a Writer. Close stops it.
func NewWriter(client rest.Interface, o Options) *Writer {
	o.Limit, o.Log = cmp.Or(o.Limit, 10_000), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	w := &Writer{options: o, client: client}
	w.stopping, w.stop = context.WithCancel(context.Background())
	ctx, abort := context.WithCancel(context.Background())
	w.abort = abort
	for range senders {
		shard := make(chan *queued, o.Limit)
		w.shards = append(w.shards, shard)
		correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{QPS: o.QPS, BurstSize: o.Burst})
		w.running.Go(func() { w.sendAll(ctx, shard, correlator) })
	}
	return w
}

// Close sends what is queued, for a short time.
func (w *Writer) Close() {
	w.stop()
	defer w.abort()
	done := make(chan struct{})
	go func() {
		w.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(flushLimit):
	}
}

// maxMessage is the longest message the API server accepts.
const maxMessage = 1024

// Text returns a message for an event. Roles in one that is too long are left out as a whole, since a
// part of them cannot be applied; rest says where they are.
func Text(message, rest string) string {
	if len(message) <= maxMessage {
		return message
	}
	first, _, _ := strings.Cut(message, "\n")
	return failure.Truncate(first, maxMessage-len(rest)) + rest
}

// Event records an event on an object.
func (w *Writer) Event(o *object.Object, event hook.Event) { w.EventAs("", o, event) }

// EventAs records an event as a user; empty for Setpoint itself.
func (w *Writer) EventAs(user string, o *object.Object, event hook.Event) {
	w.record(user, &corev1.ObjectReference{
		APIVersion: o.APIVersion(), Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name(),
		UID: types.UID(o.UID()), ResourceVersion: o.ResourceVersion(),
	}, event)
}

// EventAt records an event on an object that is known by name only.
func (w *Writer) EventAt(event hook.ObjectEvent) { w.EventAtAs("", event) }

// EventAtAs is EventAt as a user.
func (w *Writer) EventAtAs(user string, event hook.ObjectEvent) {
	w.record(user, &corev1.ObjectReference{
		APIVersion: event.APIVersion, Kind: event.Kind, Namespace: event.Namespace, Name: event.Name, UID: types.UID(event.UID),
	}, event.Event)
}

// record queues an event without waiting.
func (w *Writer) record(user string, at *corev1.ObjectReference, event hook.Event) {
	if w.stopping.Err() != nil {
		return
	}
	if w.waiting.Add(1) > int64(w.options.Limit) {
		w.waiting.Add(-1)
		w.drop(QueueFull, nil)
		return
	}
	now := metav1.Now()
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(at.Kind + "/" + at.Namespace + "/" + at.Name)) // Writing to a hash never fails.
	// Each shard has room for all.
	w.shards[hash.Sum32()%uint32(len(w.shards))] <- &queued{user: user, Event: &corev1.Event{
		// Events on objects without a namespace are in default.
		ObjectMeta: metav1.ObjectMeta{Name: util.GenerateEventName(at.Name, now.UnixNano()),
			Namespace: cmp.Or(at.Namespace, metav1.NamespaceDefault)},
		Type: event.Type, Reason: event.Reason, Message: failure.Truncate(event.Message, maxMessage),
		InvolvedObject: *at, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		// The source has no host, so that equal events of several replicas are aggregated.
		Source:              corev1.EventSource{Component: w.options.Component},
		ReportingController: w.options.Component, ReportingInstance: w.options.Instance,
	}}
}

// drop counts an event that is not sent.
func (w *Writer) drop(reason string, err error) {
	w.options.Dropped(reason)
	if reason != QueueFull {
		w.options.Log.Warn("event not sent", "reason", reason, "error", failure.OneLine(err))
	} else if w.full.CompareAndSwap(false, true) {
		w.options.Log.Warn("event queue is full; events are dropped until it is empty", "limit", w.options.Limit)
	}
}

// sendAll sends the events of a shard until the Writer is closed and the shard is empty.
func (w *Writer) sendAll(ctx context.Context, shard <-chan *queued, correlator *record.EventCorrelator) {
	for {
		select {
		case e := <-shard:
			w.send(ctx, e, correlator)
			continue
		case <-w.stopping.Done():
		}
		select {
		case e := <-shard:
			w.send(ctx, e, correlator)
		default:
			return
		}
	}
}

// send correlates an event with the previous ones, and sends what results from that.
func (w *Writer) send(ctx context.Context, e *queued, correlator *record.EventCorrelator) {
	defer func() {
		if w.waiting.Add(-1) == 0 {
			w.full.Store(false)
		}
	}()
	result, err := correlator.EventCorrelate(e.Event)
	if err != nil {
		w.drop(Rejected, err)
		return
	}
	if result.Skip {
		return
	}
	for tries := 1; ; tries++ {
		stored, err := w.store(ctx, e.user, result)
		switch {
		case err == nil:
			correlator.UpdateState(stored)
			return
		case ctx.Err() != nil:
			w.drop(Unreachable, context.Cause(ctx))
			return
		case apply.AlreadyExists(err):
			return // The response to a previous try was lost.
		case apply.Terminating(err):
			w.options.Log.Debug("event not sent: the namespace is being deleted", "namespace", e.Namespace)
			return
		case !apply.Unreachable(err):
			w.drop(Rejected, err)
			return
		case tries == maxTries || !controller.Sleep(w.stopping, retryDelay):
			w.drop(Unreachable, err)
			return
		}
	}
}

// store creates an event, or patches the one that it repeats, if that still exists.
func (w *Writer) store(ctx context.Context, user string, of *record.EventCorrelateResult) (*corev1.Event, error) {
	do := func(req *rest.Request) (*corev1.Event, error) {
		if user != "" {
			req = req.SetHeader(authentication.ImpersonateUserHeader, user)
		}
		var stored corev1.Event
		return &stored, req.Do(ctx).Into(&stored)
	}
	e := of.Event
	if e.Count > 1 {
		req := w.client.Patch(types.StrategicMergePatchType).AbsPath(object.Events.Path(e.Namespace, e.Name))
		if stored, err := do(req.Body(of.Patch)); !apply.NotFound(err) {
			return stored, err
		}
	}
	sent := e.DeepCopy()
	sent.TypeMeta, sent.ResourceVersion = metav1.TypeMeta{APIVersion: "v1", Kind: "Event"}, ""
	return do(w.client.Post().AbsPath(object.Events.Path(e.Namespace, "")).Body(sent))
}
