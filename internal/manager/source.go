package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/memory"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// Inspect returns the state of this process. It works before Run and in standby replicas.
func (m *Manager) Inspect() inspect.Source { return &source{m.controllers, m} }

// source implements inspect.Source for a Manager.
type source struct {
	*controllers.Set

	manager *Manager
}

func (s *source) Name() string { return s.manager.Process }

func (s *source) Process(context.Context) (inspect.Process, error) {
	m := s.manager
	p := inspect.Process{
		Name: m.Process, Version: m.options.Version, Instance: serving.InstanceName(), Started: m.started,
		LeaderElection: m.options.LeaderElection.Enabled, IsLeader: m.Leader.Leads(), Leader: m.Leader.Leader(),
		HeapBytes: memory.Heap(), Goroutines: runtime.NumGoroutine(),
		Selector: m.options.Selector, LogLevel: logLevel(m.Log), Watches: watches(m.Store), History: m.History.Stats(),
		Series: m.History.Series("", time.Now()),
	}
	for _, health := range m.controllers.Healths() {
		p.Queue.Add(health.Queue)
	}
	return p, nil
}

// watches returns the watches of a store.
func watches(store *cache.Cache) []inspect.Watch {
	all := []inspect.Watch{}
	for _, w := range store.Stats() {
		all = append(all, inspect.Watch{
			Selection: w.Selection.String(), Kind: object.KindOf(w.Selection.Resource), Namespace: w.Selection.Namespace,
			Objects: w.Objects, Bytes: w.Bytes, Synced: w.Synced, Error: failure.Text(w.Err),
		})
	}
	return all
}

func (s *source) Runs(_ context.Context, ref object.Ref, limit int) ([]inspect.Run, error) {
	return s.withProcess(s.manager.History.Runs(ref, limit)), nil
}

func (s *source) Reviews(_ context.Context, controller string, detailed bool) ([]inspect.Run, error) {
	if !s.Has(controller) {
		return nil, fmt.Errorf("controller %q: %w", controller, failure.ErrNotFound)
	}
	return s.withProcess(s.manager.History.Reviews(controller, detailed)), nil
}

func (s *source) Run(_ context.Context, id uint64, tokens bool) (inspect.Run, error) {
	find := s.manager.History.Run
	if tokens {
		find = s.manager.History.RunWithTokens
	}
	run, err := find(id)
	run.Process = s.Name()
	return run, err
}

func (s *source) withProcess(runs []inspect.Run) []inspect.Run {
	for i := range runs {
		runs[i].Process = s.Name()
	}
	return runs
}

// errPlanUnsupported is returned by processes without Options.Plan.
var errPlanUnsupported = errors.New("this process has no planner; use `setpoint plan`")

func (s *source) Plan(ctx context.Context, controller string, ref object.Ref, edited json.RawMessage) (inspect.Plan, error) {
	if s.manager.options.Plan == nil {
		return inspect.Plan{}, errPlanUnsupported
	}
	return s.manager.options.Plan(ctx, s.manager, controller, ref, edited)
}

func (s *source) Await(ctx context.Context, since uint64) (uint64, error) {
	ticker := time.NewTicker(digestInterval)
	defer ticker.Stop()
	for {
		revision, changed := s.manager.History.Revision()
		if revision != since {
			return revision, nil
		}
		select {
		case <-changed:
		case <-ticker.C:
			s.manager.updateDigest()
		case <-ctx.Done():
			return revision, ctx.Err()
		}
	}
}

func (m *Manager) segment() recording.Segment {
	return recording.Segment{Process: m.Process, Version: m.options.Version, Began: time.Now()}
}

// startRecording records to the configured file until it is stopped. An error while it records ends the recording only.
func (m *Manager) startRecording() (stop func(), err error) {
	o := m.options.Recording
	if o.File == "" {
		return func() {}, nil
	}
	file, err := recording.OpenFile(recording.FileOptions{Path: o.File, MaxBytes: int64(o.MaxBytes), Rotate: true, Segment: m.segment()})
	if err != nil {
		return nil, fmt.Errorf("record to a file: %w", err)
	}
	recorder := recording.NewRecorder(recording.Filter{})
	remove := m.Recorders.Add(recorder)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := recorder.Record(ctx, file)
		remove()
		if err = cmp.Or(err, file.Close()); err != nil {
			m.Log.Error("recording stopped; it starts again with the process", "file", o.File, "error", err.Error())
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}

var errNoRecords = errors.New("this process cannot be recorded: it has --history-size=0 and no --record")

func (s *source) Record(ctx context.Context, filter recording.Filter, out io.Writer) error {
	if s.manager.Unrecorded {
		return errNoRecords
	}
	recorder := recording.NewRecorder(filter)
	defer s.manager.Recorders.Add(recorder)()
	return recorder.Record(ctx, recording.NewStream(out, s.manager.segment()))
}

// leveled is a log handler whose level can change, as those of package flags. A Go program may have another one.
type leveled interface{ LogLevel() *slog.LevelVar }

// logLevel returns the level of the log; "" if it cannot change.
func logLevel(of *slog.Logger) string {
	log, changeable := of.Handler().(leveled)
	if !changeable {
		return ""
	}
	return strings.ToLower(log.LogLevel().Level().String())
}

var errFixedLogLevel = errors.New("the program has a logger of its own, whose level cannot be changed here")

func (s *source) SetLogLevel(_ context.Context, name string) error {
	level, err := inspect.ParseLogLevel(name)
	if err != nil {
		return err
	}
	log, changeable := s.manager.Log.Handler().(leveled)
	if !changeable {
		return errFixedLogLevel
	}
	before, current := logLevel(s.manager.Log), log.LogLevel()
	if level > current.Level() {
		defer current.Set(level) // The level before shows the line.
	} else {
		current.Set(level)
	}
	s.manager.Log.Info("log level changed", "from", before, "to", name)
	return nil
}

func (s *source) Diagnostic(_ context.Context, name string) ([]byte, error) {
	return serving.Diagnostic(name, s.manager.Metrics)
}
