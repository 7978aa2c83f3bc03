package recording

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Filter selects runs; the zero value selects all.
type Filter struct {
	// Controller is a name as in logs, or its part behind the slash. Kind is that of the object.
	Controller string      `json:"controller,omitempty"`
	Kind       object.Kind `json:"kind,omitzero"`
	Namespace  string      `json:"namespace,omitempty"`
	Name       string      `json:"name,omitempty"`
}

// Selects reports whether runs of a controller about an object are selected.
func (f *Filter) Selects(controller string, o object.Ref) bool {
	return (f.Controller == "" || f.Controller == controller || strings.HasSuffix(controller, "/"+f.Controller)) &&
		(f.Kind.Kind == "" || f.Kind.GroupKind() == o.GroupKind()) &&
		(f.Namespace == "" || f.Namespace == o.Namespace) &&
		(f.Name == "" || f.Name == o.Name)
}

// The bounds of what waits to be written: runs, and the bytes of their requests and responses.
const (
	maxQueuedRuns  = 4096
	maxQueuedBytes = 32 << 20
)

// Recorder writes the calls of runs. Runs that come while too many wait are dropped and counted.
type Recorder struct {
	filter Filter
	key    *redact.Key
	queue  chan queuedRun
	queued atomic.Int64
	// dropped counts calls since the latest flush.
	dropped atomic.Uint64
}

type queuedRun struct {
	record.Run

	bytes int64
}

// NewRecorder returns a Recorder; Record makes it write.
func NewRecorder(filter Filter) *Recorder {
	return &Recorder{filter: filter, key: redact.NewKey(), queue: make(chan queuedRun, maxQueuedRuns)}
}

// Ran adds a run. It never waits.
func (r *Recorder) Ran(run *record.Run) {
	if !r.filter.Selects(run.Controller, run.Object) {
		return
	}
	calls, size := 0, int64(0)
	for i := range run.Steps {
		if isRecorded(run.Steps[i]) {
			calls++
			size += int64(run.Steps[i].Call.Size())
		}
	}
	if calls == 0 {
		return
	}
	if r.queued.Add(size) <= maxQueuedBytes || len(r.queue) == 0 {
		select {
		case r.queue <- queuedRun{*run, size}:
			return
		default:
		}
	}
	r.queued.Add(-size)
	r.dropped.Add(uint64(calls))
}

// Sink is a File or a Stream.
type Sink interface {
	// Writer returns where to write next.
	Writer() (*Writer, error)
	// FlushInterval is how long a call may stay in memory.
	FlushInterval() time.Duration
}

// Record writes until the context ends, or writing fails.
func (r *Recorder) Record(ctx context.Context, sink Sink) error {
	ticker := time.NewTicker(sink.FlushInterval())
	defer ticker.Stop()
	for {
		var err error
		select {
		case run := <-r.queue:
			err = r.write(sink, run)
		case <-ticker.C:
			err = r.flush(sink)
		case <-ctx.Done():
			return r.drain(sink)
		}
		if err != nil {
			return err
		}
	}
}

// drain writes what waits.
func (r *Recorder) drain(sink Sink) error {
	for len(r.queue) > 0 {
		if err := r.write(sink, <-r.queue); err != nil {
			return err
		}
	}
	return r.flush(sink)
}

func (r *Recorder) flush(sink Sink) error {
	w, err := sink.Writer()
	if err != nil {
		return err
	}
	if dropped := r.dropped.Swap(0); dropped > 0 {
		w.AddTotals(Totals{Dropped: dropped})
	}
	return w.Flush()
}

func (r *Recorder) write(sink Sink, run queuedRun) error {
	r.queued.Add(-run.bytes)
	calls := run.Run
	calls.Secrets = run.Values(r.key) // Those of all steps.
	calls.Steps = lists.Filter(run.Steps, isRecorded)
	masked := calls.Masked(r.key)
	masked.Object.UID = ""
	for i := range masked.Steps {
		w, err := sink.Writer()
		if err != nil {
			return err
		}
		step, called := &masked.Steps[i], calls.Steps[i].Call
		call := &Call{
			Time: masked.Began, Duration: step.Took, Controller: masked.Controller, Hook: called.HookName(), Object: masked.Object,
			Causes: masked.Causes, Outcome: masked.Outcome, Error: calls.Secrets.Text(failure.Text(called.Err)),
		}
		if err := w.Add(call, step.Call.Request, step.Call.Response); err != nil {
			return err
		}
	}
	return nil
}

func isRecorded(s record.Step) bool { return s.Call != nil && !s.Call.Sent.IsEmpty() }

// Recorders are those of a process. Without any, a run costs one read of a pointer.
type Recorders struct {
	mu  sync.Mutex
	all atomic.Pointer[[]*Recorder]
}

// Ran passes a run to the recorders.
func (rs *Recorders) Ran(run *record.Run) {
	for _, r := range rs.list() {
		r.Ran(run)
	}
}

func (rs *Recorders) list() []*Recorder {
	if all := rs.all.Load(); all != nil {
		return *all
	}
	return nil
}

// Add adds a recorder until remove is called.
func (rs *Recorders) Add(r *Recorder) (remove func()) {
	rs.set(func(all []*Recorder) []*Recorder { return append(all, r) })
	return func() {
		rs.set(func(all []*Recorder) []*Recorder {
			return slices.DeleteFunc(all, func(other *Recorder) bool { return other == r })
		})
	}
}

// set replaces the list, which readers may hold.
func (rs *Recorders) set(change func([]*Recorder) []*Recorder) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all := change(slices.Clone(rs.list()))
	rs.all.Store(&all)
}

// StreamInterval is how often a Stream writes at least, so that its reader sees that the process is alive.
const StreamInterval = 5 * time.Second

// Stream is a recording without an end, for one reader.
type Stream struct {
	writer *Writer
	latest time.Time
}

// NewStream returns a Stream, which begins at once: its reader has missed nothing since.
func NewStream(out io.Writer, segment Segment) *Stream {
	s := &Stream{writer: NewWriter(out, segment), latest: time.Now()}
	s.writer.AddTotals(Totals{})
	_ = s.writer.Flush() // The writer keeps its error.
	return s
}

// StreamDelay is how long a call is on its way to the reader of a Stream, about.
const StreamDelay = 100 * time.Millisecond

// FlushInterval implements Sink.
func (*Stream) FlushInterval() time.Duration { return StreamDelay }

// Writer implements Sink.
func (s *Stream) Writer() (*Writer, error) {
	if time.Since(s.latest) >= StreamInterval {
		s.latest = time.Now()
		s.writer.AddTotals(Totals{})
	}
	return s.writer, nil
}
