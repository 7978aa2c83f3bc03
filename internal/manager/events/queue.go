package events

import (
	"context"
	"hash/fnv"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// The limits of the event queue. The queue takes what all workers send in a burst, and the API
// server gets it from a few writers. An event that cannot be sent is retried for two minutes.
const (
	writers    = 4
	maxTries   = 12
	retryDelay = 10 * time.Second
	flushLimit = 2 * time.Second
)

// queued is an event that is not sent yet.
type queued struct {
	*corev1.Event

	// user is the user that sends the event; empty for Setpoint itself.
	user string
}

// queue sends events in the background. client-go's broadcaster has a queue of 1000 and one
// writer, and drops what comes in a burst of many objects. Its correlator aggregates equal events and
// limits those of one object.
type queue struct {
	sink    sink
	log     *slog.Logger
	dropped func(reason string, err error)
	limit   int64
	// shards have the events by object, so that those of one object are sent in order.
	shards []chan *queued
	// waiting counts the events in all shards, and full means that one was dropped since they were
	// empty.
	waiting atomic.Int64
	full    atomic.Bool

	stopping context.Context //nolint:containedctx // It is that of the writers, which outlive all calls.
	stop     context.CancelFunc
	abort    context.CancelFunc
	running  sync.WaitGroup
}

// newQueue starts the writers of a queue.
func newQueue(to sink, o Options) *queue {
	q := &queue{sink: to, log: o.Log, limit: int64(o.Limit)}
	q.dropped = func(reason string, err error) {
		o.Dropped(reason)
		if reason != QueueFull {
			q.log.Warn("event not sent", "reason", reason, "error", failure.OneLine(err))
		} else if q.full.CompareAndSwap(false, true) {
			q.log.Warn("event queue is full; events are dropped until it is empty", "limit", o.Limit)
		}
	}
	q.stopping, q.stop = context.WithCancel(context.Background())
	ctx, abort := context.WithCancel(context.Background())
	q.abort = abort
	for range writers {
		shard := make(chan *queued, o.Limit)
		q.shards = append(q.shards, shard)
		correlator := record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{QPS: o.QPS, BurstSize: o.Burst})
		q.running.Go(func() { q.write(ctx, shard, correlator) })
	}
	return q
}

// add queues an event without waiting.
func (q *queue) add(e *queued) {
	if q.stopping.Err() != nil {
		return
	}
	if q.waiting.Add(1) > q.limit {
		q.waiting.Add(-1)
		q.dropped(QueueFull, nil)
		return
	}
	at := e.InvolvedObject
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(at.Kind + "/" + at.Namespace + "/" + at.Name)) // Writing to a hash never fails.
	q.shards[hash.Sum32()%uint32(len(q.shards))] <- e                       // Each shard has room for all.
}

// close sends what is queued, for a short time.
func (q *queue) close() {
	q.stop()
	defer q.abort()
	done := make(chan struct{})
	go func() {
		q.running.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(flushLimit):
	}
}

// write sends the events of a shard until the queue is closed and the shard is empty.
func (q *queue) write(ctx context.Context, shard <-chan *queued, correlator *record.EventCorrelator) {
	for {
		select {
		case e := <-shard:
			q.sendNext(ctx, e, correlator)
			continue
		case <-q.stopping.Done():
		}
		select {
		case e := <-shard:
			q.sendNext(ctx, e, correlator)
		default:
			return
		}
	}
}

func (q *queue) sendNext(ctx context.Context, e *queued, correlator *record.EventCorrelator) {
	q.send(ctx, e, correlator)
	if q.waiting.Add(-1) == 0 {
		q.full.Store(false)
	}
}

// send correlates an event with the former ones, and sends what results from that.
func (q *queue) send(ctx context.Context, e *queued, correlator *record.EventCorrelator) {
	result, err := correlator.EventCorrelate(e.Event)
	if err != nil {
		q.dropped(Rejected, err)
		return
	}
	if result.Skip {
		return
	}
	for tries := 1; ; tries++ {
		stored, err := q.sink.store(ctx, e.user, result)
		switch {
		case err == nil:
			correlator.UpdateState(stored)
			return
		case ctx.Err() != nil:
			q.dropped(Unreachable, context.Cause(ctx))
			return
		case apply.AlreadyExists(err):
			return // The response to a former try was lost.
		case apply.Terminating(err):
			q.log.Debug("event not sent: the namespace is being deleted", "namespace", e.Namespace)
			return
		case !apply.Unreachable(err):
			q.dropped(Rejected, err)
			return
		case tries == maxTries || !controller.Sleep(q.stopping, retryDelay):
			q.dropped(Unreachable, err)
			return
		}
	}
}
