package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// recordHandler writes a recording until the client is gone.
func recordHandler(source inspect.Source) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a, err := readArguments(r)
		if err != nil {
			writeResponse(w, nil, err)
			return
		}
		out := &streamWriter{ResponseWriter: w}
		if err := source.Record(r.Context(), a.Filter, out); err != nil && !out.begun {
			writeResponse(w, nil, err)
		}
	}
}

// streamWriter sends what is written at once.
type streamWriter struct {
	http.ResponseWriter

	begun bool
}

func (s *streamWriter) Write(text []byte) (int, error) {
	s.begun = true
	n, err := s.ResponseWriter.Write(text)
	if err == nil {
		err = http.NewResponseController(s.ResponseWriter).Flush()
	}
	return n, err
}

// maxSilence is how long a recording may be silent.
const maxSilence = 6 * recording.StreamInterval

// errSilent is the cause of the end of a recording that was silent.
var errSilent = fmt.Errorf("it has sent nothing for %s", maxSilence)

// Record implements inspect.Source. It returns nil if the process ends the recording.
func (c *client) Record(ctx context.Context, filter recording.Filter, out io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	err := c.open(ctx, pathRecording, arguments{Filter: filter},
		func(response *http.Response) error {
			if response.StatusCode != http.StatusOK {
				body, err := c.read(ctx, response)
				return errors.Join(err, c.responseError(response.StatusCode, body))
			}
			_, err := io.Copy(out, &aliveReader{response.Body, silence})
			return err
		})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// aliveReader postpones a timer with each read.
type aliveReader struct {
	io.Reader

	timer *time.Timer
}

func (r *aliveReader) Read(into []byte) (int, error) {
	n, err := r.Reader.Read(into)
	r.timer.Reset(maxSilence)
	return n, err
}
