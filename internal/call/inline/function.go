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

var errUnexpected = errors.New("unexpected response of the engine")

// Timeout implements call.Transport.
func (f *function) Timeout() time.Duration { return f.limits(nil, 0).Longest() }

// Close implements call.Transport. The program has the processes.
func (f *function) Close() {}

// Exchange implements call.Transport.
func (f *function) Exchange(ctx context.Context, req *call.Request, result *call.Result) (call.Response, error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	body := withTime(req.Body, now)
	seed := sha256.Sum256(body)
	header := encode(script.CallHeader{Function: f.name, Time: now, Seed: binary.BigEndian.Uint64(seed[:]), Timeout: f.timeout})
	var output script.Output
	limits := f.limits(req.Object, req.Limits.MaxResponseBytes+maxLogBytes)
	printed := call.OutputOf(ctx)
	printed.Ran(f.code)
	f.ran.Store(true)
	limits.Print = printed.Add
	err := f.pool.Do(ctx, *limits, func(conn *child.Conn) (err error) {
		output, err = roundTrip(conn, header, body)
		return err
	})
	if err != nil {
		return call.Response{}, f.explain(err, req.Limits)
	}
	result.BytesIn = len(output.Response)
	switch {
	case output.Error != nil:
		result.Code = http.StatusInternalServerError
		return call.Response{}, f.explain(output.Error, req.Limits)
	case output.Response == nil:
		return call.Response{}, errUnexpected
	case int64(len(output.Response)) > req.Limits.MaxResponseBytes:
		return call.Response{}, req.Limits.TooLarge()
	}
	if err := call.OwnError(output.Response, req.Limits); err != nil {
		result.Code = http.StatusInternalServerError
		return call.Response{}, err
	}
	result.Code = http.StatusOK
	return call.Response{Body: output.Response}, nil
}

func (f *function) limits(object []byte, maxBytes int64) *child.Call {
	return &child.Call{Object: object, Timeout: f.timeout + killGrace, MaxBytes: maxBytes}
}

// roundTrip sends lines and returns what the engine responds. It logs lines before that.
func roundTrip(conn *child.Conn, lines ...[]byte) (output script.Output, err error) {
	line, err := conn.RoundTrip(lines...)
	for err == nil {
		if output, err = script.ParseOutput(line); err != nil || output.Log == nil {
			return output, err
		}
		conn.Log(*output.Log)
		line, err = conn.Line()
	}
	return output, err
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

// encode returns JSON of values that can always be encoded.
func encode(value any) []byte {
	text, _ := json.Marshal(value) //nolint:errchkjson // As the name of the parameter says.
	return text
}

// explain turns errors of a child, and of the code in it, into those of a hook.
func (f *function) explain(err error, limits call.Limits) error {
	if thrown, is := errors.AsType[*script.Error](err); is {
		thrown.Message = call.Quote(f.messageOf(thrown, f.timeout), limits.MaxErrorBytes)
		return thrown
	}
	if _, late := errors.AsType[*child.TimeoutError](err); late {
		return &child.TimeoutError{After: f.timeout}
	}
	if exceeded := f.exceeded(err); exceeded != nil {
		return exceeded
	}
	if _, tooLarge := errors.AsType[*child.SizeError](err); tooLarge {
		return limits.TooLarge()
	}
	if _, is := errors.AsType[*child.StartError](err); is {
		return &hook.UnreachableError{Err: err, Connected: true}
	}
	return err
}

// Wrap implements call.Transport.
func (f *function) Wrap(hookType call.HookType, err error) error {
	wrapped := &Error{Function: f.name, Err: err}
	if f.name == defaultFunction(hookType) {
		wrapped.Function = ""
	}
	if thrown, is := errors.AsType[*script.Error](err); is {
		wrapped.Place, wrapped.Line = f.placeOf(thrown), f.lineOf(thrown)
	}
	return wrapped
}

// defaultFunction is the function of a hook whose spec names none.
func defaultFunction(t call.HookType) string {
	if t == call.Admit {
		return "review"
	}
	return string(t)
}
