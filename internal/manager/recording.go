package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// Recording configures the continuous recording of hook calls.
type Recording struct {
	// File is the path of the file; "" for none.
	File string
	// MaxBytes bounds the file and the one before it together; 256 MiB if zero.
	MaxBytes int
}

// recordsNoSteps reports whether nothing could use the steps of runs.
func (m *Manager) recordsNoSteps() bool {
	return m.options.History.Off && m.options.Recording.File == ""
}

func (m *Manager) segment() recording.Segment {
	return recording.Segment{Process: m.name(), Version: m.options.Version, Began: time.Now()}
}

// startRecording records to the configured file until it is stopped. An error while it records ends the recording
// only.
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
	remove := m.recorders.Add(recorder)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := recorder.Record(ctx, file)
		remove()
		if err = cmp.Or(err, file.Close()); err != nil {
			m.log.Error("recording stopped; it starts again with the process", "file", o.File, "error", err.Error())
		}
	}()
	return func() {
		cancel()
		<-done
	}, nil
}

var errNoRecords = errors.New("this process cannot be recorded: it has --history-size=0 and no --record")

// RunWithTokens implements inspect.CallSource.
func (s *source) RunWithTokens(_ context.Context, id uint64) (inspect.Run, error) {
	run, err := s.manager.history.RunWithTokens(id)
	run.Process = s.Name()
	return run, err
}

// Record implements inspect.CallSource.
func (s *source) Record(ctx context.Context, filter recording.Filter, out io.Writer) error {
	if s.manager.recordsNoSteps() {
		return errNoRecords
	}
	recorder := recording.NewRecorder(filter)
	defer s.manager.recorders.Add(recorder)()
	return recorder.Record(ctx, recording.NewStream(out, s.manager.segment()))
}
