package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// streamSource is a process that can be recorded.
type streamSource struct {
	*clitest.FakeProcess
	stream func(out io.Writer) error
}

func (s *streamSource) Record(_ context.Context, _ recording.Filter, out io.Writer) error {
	return s.stream(out)
}

// recordingOf returns a session that records one process, what it prints, and a function that records until the stream
// ends.
func recordingOf(t *testing.T, reviewer client.AccessReviewer, filter recording.Filter, stream func(io.Writer) error) (s *recordSession, said *bytes.Buffer, record func()) {
	t.Helper()
	source := &streamSource{clitest.WithControllers(clitest.NewFakeProcess("a"), []inspect.Controller{{Name: "example/teams", Kinds: []object.Kind{clitest.Team().Kind}}}), stream}
	said = &bytes.Buffer{}
	r := &processes.Session{
		Invocation: &command.Invocation{Stdout: said, Stderr: said}, Sources: []inspect.Source{source}, Timeouts: inspect.NewTimeouts(time.Minute),
		Client: &client.Client{AccessReviewer: reviewer},
	}
	s = newRecordSession(r, filter, "calls")
	s.file = must.Get(recording.OpenFile(recording.FileOptions{Path: filepath.Join(t.TempDir(), "calls"), MaxBytes: recording.MinFileSize})).In(t)
	t.Cleanup(func() { _ = s.file.Close() })
	return s, said, func() {
		for _, source := range s.idle() {
			one := &processRecording{recordSession: s, source: source, client: s.Client.Separate(), end: func(err error) { t.Error(err) }}
			one.record(t.Context(), t.Context())
		}
	}
}

func TestRecordUnknownController(t *testing.T) {
	for name, want := range map[string]string{
		"": "", "teams": "", "example/teams": "", "team": `no controller "team"`, "example/other": `no controller "example/other"`,
	} {
		s, _, _ := recordingOf(t, clitest.AllowedVerbs{"list teams in "}, recording.Filter{Controller: name}, nil)
		err := s.CheckController(t.Context(), name, "")
		hint := command.HintOf(err)
		if want == "" && err != nil || want != "" && (err == nil || err.Error() != want || hint != "there are example/teams") {
			t.Errorf("%q: %v (%s)", name, err, hint)
		}
	}
}

// A process that ended is tried again, and reported once.
func TestRecordEndedProcess(t *testing.T) {
	begins := false
	s, said, record := recordingOf(t, clitest.AllowedVerbs{}, recording.Filter{}, func(out io.Writer) error {
		if begins {
			recording.NewStream(out, recording.Segment{})
			return nil
		}
		return errors.New("connection refused")
	})
	for _, begins = range []bool{true, false, false, true, false} {
		record()
	}
	if got := said.String(); strings.Count(got, "Recording the process a") != 2 || strings.Count(got, "warning: a is not recorded any more: the process has ended") != 2 || strings.Count(got, "\n") != 4 {
		t.Errorf("it says\n%s", got)
	}
	if len(s.processes) != 1 {
		t.Errorf("%d processes", len(s.processes))
	}
}

// A stream that cannot be read is not opened again at once.
func TestRecordUnreadableStream(t *testing.T) {
	opened := 0
	_, said, record := recordingOf(t, clitest.AllowedVerbs{}, recording.Filter{}, func(out io.Writer) error {
		opened++
		_, err := io.WriteString(out, "setpoint recording v9\n")
		return err
	})
	record()
	record()
	if got := said.String(); opened != 1 || !strings.Contains(got, `warning: a is not recorded any more: has the version "v9"`) {
		t.Errorf("opened %d times:\n%s", opened, got)
	}
}

// outageOnce fails its first review.
type outageOnce struct {
	clitest.AllowedVerbs
	reviews atomic.Int32
}

func (o *outageOnce) CanI(ctx context.Context, verb string, kind object.Kind, namespace, name string) (bool, error) {
	if o.reviews.Add(1) == 1 {
		return false, userclient.ErrUnreachable
	}
	return o.AllowedVerbs.CanI(ctx, verb, kind, namespace, name)
}

// After an outage of the API server, calls are recorded again.
func TestRecordAfterOutage(t *testing.T) {
	s, said, record := recordingOf(t, &outageOnce{AllowedVerbs: clitest.AllowedVerbs{"get teams in shop"}}, recording.Filter{}, func(out io.Writer) error {
		w := recording.NewWriter(out, recording.Segment{})
		for range 3 {
			if err := w.Add(&recording.Call{Hook: "sync", Object: clitest.Team()}, json.RawMessage(`{}`), nil); err != nil {
				return err
			}
		}
		return w.Flush()
	})
	record()
	must.Succeed(t, s.flush())
	if s.file.Calls() != 2 || s.hidden != 0 || s.unchecked != 1 || !strings.Contains(said.String(), "warning: calls are left out: check your permissions: the API server cannot be reached") {
		t.Errorf("%d calls, %d hidden, %d unchecked:\n%s", s.file.Calls(), s.hidden, s.unchecked, said)
	}
	if err := s.summarize(1); err != nil || !strings.Contains(said.String(), "Recorded 2 calls of 1 process; 1 were left out, because the API server did not say whether you may read them.") {
		t.Errorf("it says\n%s", said)
	}
}
