package inline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// function is the transport of one function of a program.
type function struct {
	*program
	name    string
	timeout time.Duration
}

// maxLogBytes is what a call may write besides its response.
const maxLogBytes = 4 << 20

var errUnexpected = errors.New("unexpected reply of the engine")

// Timeout implements call.Transport.
func (f *function) Timeout() time.Duration { return f.timeout }

// Close implements call.Transport. The program has the processes.
func (f *function) Close() {}

// Exchange implements call.Transport.
func (f *function) Exchange(ctx context.Context, req *call.Request, result *call.Result) (call.Response, error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	body := withTime(req.Body, now)
	header := encode(script.CallHeader{Function: f.name, Time: now, Seed: seedOf(body)})
	limits := child.Call{Object: req.Object, Timeout: f.timeout, MaxBytes: req.Limits.MaxResponseBytes + maxLogBytes}
	var reply script.Reply
	err := f.pool.Do(ctx, limits, func(conn *child.Conn) (err error) {
		reply, err = roundTrip(conn, header, body)
		return err
	})
	if err != nil {
		return call.Response{}, f.explain(err, req.Limits)
	}
	result.BytesIn = len(reply.Response)
	switch {
	case reply.Error != nil:
		result.Code = http.StatusInternalServerError
		reply.Error.Message = call.Quote(f.messageOf(reply.Error), req.Limits.MaxErrorBytes)
		return call.Response{}, reply.Error
	case reply.Response == nil:
		return call.Response{}, errUnexpected
	case int64(len(reply.Response)) > req.Limits.MaxResponseBytes:
		return call.Response{}, req.Limits.TooLarge()
	}
	result.Code = http.StatusOK
	return call.Response{Body: reply.Response}, nil
}

// roundTrip sends lines and returns the reply to them. It logs lines before that.
func roundTrip(conn *child.Conn, lines ...[]byte) (reply script.Reply, err error) {
	line, err := conn.RoundTrip(lines...)
	for err == nil {
		if reply, err = script.ParseReply(line); err != nil || reply.Log == nil {
			return reply, err
		}
		conn.Log(*reply.Log)
		line, err = conn.Line()
	}
	return reply, err
}

// withTime adds the time to a request, so that a call can be repeated with the same result.
func withTime(body []byte, at time.Time) []byte {
	const layout = `"2006-01-02T15:04:05.000Z07:00"`
	rest := bytes.TrimPrefix(body, []byte("{"))
	timed := make([]byte, 0, len(body)+len(layout)+len(`{"time":,`))
	timed = at.AppendFormat(append(timed, `{"time":`...), layout)
	if !bytes.HasPrefix(bytes.TrimSpace(rest), []byte("}")) {
		timed = append(timed, ',')
	}
	return append(timed, rest...)
}

// seedOf returns the seed of random numbers for a request.
func seedOf(body []byte) uint64 {
	sum := sha256.Sum256(body)
	return binary.BigEndian.Uint64(sum[:])
}

// encode returns JSON of values that can always be encoded.
func encode(value any) []byte {
	text, _ := json.Marshal(value)
	return text
}

// explain turns errors of a child into those of a hook.
func (f *function) explain(err error, limits call.Limits) error {
	if exceeded := f.exceeded(err); exceeded != nil {
		return exceeded
	}
	if _, tooLarge := errors.AsType[*child.SizeError](err); tooLarge {
		return limits.TooLarge()
	}
	if _, is := errors.AsType[*child.StartError](err); is {
		return &hook.UnreachableError{Err: err}
	}
	return err
}
