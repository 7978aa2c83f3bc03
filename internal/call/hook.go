package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Config configures a Hook. Only Transport is required.
type Config struct {
	Transport Transport
	Wire      codec.Wire
	Limits    Limits
	// Observe is called after every call, on the caller's goroutine.
	Observe func(Result)
}

// Hook implements hook.Hook, hook.Customizer, hook.Handler and hook.Admitter, which differ only in the wire form.
type Hook struct{ config Config }

var (
	_ hook.Hook       = &Hook{}
	_ hook.Customizer = &Hook{}
	_ hook.Handler    = &Hook{}
	_ hook.Admitter   = &Hook{}
)

// New returns a hook that is called over a transport.
func New(c Config) *Hook {
	c.Limits = c.Limits.withDefaults()
	return &Hook{c}
}

// Timeout is the time limit of a call.
func (h *Hook) Timeout() time.Duration { return h.config.Transport.Timeout() }

// Close closes the transport.
func (h *Hook) Close() { h.config.Transport.Close() }

// Call implements hook.Hook.
func (h *Hook) Call(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	hookType := Sync
	if req.Finalizing {
		hookType = Finalize
	}
	body := codec.AppendSyncRequest(nil, req, h.config.Wire)
	return do(ctx, h, Request{HookType: hookType, Body: body, Object: req.Parent}, codec.DecodeSyncResponse, h.config.Wire)
}

// Customize implements hook.Customizer.
func (h *Hook) Customize(ctx context.Context, req *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	return do(ctx, h, Request{HookType: Customize, Body: codec.AppendCustomizeRequest(nil, req), Object: req.Parent},
		codec.DecodeCustomizeResponse, h.config.Wire.Decoding)
}

// Handle implements hook.Handler.
func (h *Hook) Handle(ctx context.Context, req *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	// own is the handler's error, reported by a successful exchange.
	var own error
	resp, err := do(ctx, h, Request{HookType: Handle, Body: codec.AppendHandlerRequest(nil, req), Object: req.Object},
		func(body []byte, by codec.Decoding) (resp *hook.HandlerResponse, err error) {
			if resp, err = codec.DecodeHandlerResponse(body, by); !hook.IsMalformed(err) {
				own, err = err, nil
			}
			return resp, err
		}, h.config.Wire.Decoding)
	return resp, cmp.Or(err, own)
}

// Admit implements hook.Admitter.
func (h *Hook) Admit(ctx context.Context, req *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	reviewed := req.Object
	if reviewed == nil {
		reviewed = req.OldObject
	}
	return do(ctx, h, Request{HookType: Admit, Body: codec.AppendReviewRequest(nil, req), Object: reviewed},
		codec.DecodeReviewResponse, h.config.Wire.Decoding)
}

// Index sends objects to the index of a process. The response has no content that counts.
func (h *Hook) Index(ctx context.Context, req *hook.IndexRequest) error {
	_, err := do(ctx, h, Request{HookType: Index, Body: codec.AppendIndexRequest(nil, req)},
		func([]byte, codec.Decoding) (*struct{}, error) { return nil, nil }, h.config.Wire.Decoding) //nolint:nilnil // See above.
	return err
}

// Notifications opens the stream of a process, which ends with ctx. The transport has to be a Streamer.
func (h *Hook) Notifications(ctx context.Context) (io.ReadCloser, error) {
	result, start := Result{HookType: Notifications}, time.Now()
	transport := h.config.Transport.(Streamer) //nolint:forcetypeassert // See above.
	stream, err := transport.OpenStream(ctx, &Request{HookType: Notifications, Limits: h.config.Limits}, &result)
	return stream, h.report(result, start, err)
}

// do makes a call of any type and reports it. decode decodes the response by the rules of the hook, and may retain it.
func do[R, Rules any](ctx context.Context, h *Hook, req Request, decode func([]byte, Rules) (*R, error), by Rules) (*R, error) {
	req.Limits = h.config.Limits
	result, start := Result{HookType: req.HookType}, time.Now()
	ctx, span := trace.Start(ctx, trace.Client, "hook", string(req.HookType))
	decoded, err := exchange(ctx, h, &req, &result, func(body []byte) (*R, error) { return decode(body, by) })
	span.SetInt(trace.AttrStatus, result.Code)
	err = h.report(result, start, err)
	span.End(err)
	return decoded, err
}

func exchange[R any](ctx context.Context, h *Hook, req *Request, result *Result, decode func([]byte) (*R, error)) (*R, error) {
	resp, err := h.config.Transport.Exchange(ctx, req, result)
	if err != nil {
		return nil, err
	}
	if err := req.Limits.CheckValues(resp.Body); err != nil {
		return nil, err
	}
	decoded, err := decode(resp.Body)
	if err != nil {
		return nil, redact.In(resp.Body).Error(err) // The run has not seen it.
	}
	if resp.Valid != nil {
		resp.Valid()
	}
	return decoded, nil
}

// report reports a call, and returns its error with how the hook was called.
func (h *Hook) report(result Result, start time.Time, err error) error {
	if err != nil {
		err = h.config.Transport.Wrap(result.HookType, err)
	}
	if h.config.Observe != nil {
		result.Duration, result.Err = time.Since(start), err
		h.config.Observe(result)
	}
	return err
}

// The default Limits.
const (
	DefaultMaxResponseBytes = 32 << 20
	DefaultMaxValues        = 500_000
	DefaultMaxErrorBytes    = 200
)

// Limits bound the memory that a response takes. Values up to zero select the default.
type Limits struct {
	// MaxResponseBytes is the maximum size of a response; default 32 MiB.
	MaxResponseBytes int64
	// MaxValues is the maximum number of JSON values (objects, lists and scalars) in a response; default 500,000. A
	// decoded value takes 50 to 300 bytes, however small it is in JSON.
	MaxValues int
	// MaxErrorBytes limits how much of an error response is quoted in errors, which
	// reach logs, events and conditions; default 200. Negative values quote nothing.
	MaxErrorBytes int
}

func (l Limits) withDefaults() Limits {
	l.MaxResponseBytes = cmp.Or(max(0, l.MaxResponseBytes), DefaultMaxResponseBytes)
	l.MaxValues = cmp.Or(max(0, l.MaxValues), DefaultMaxValues)
	l.MaxErrorBytes = max(0, cmp.Or(l.MaxErrorBytes, DefaultMaxErrorBytes))
	return l
}

// CheckValues returns an error if a response, or its beginning, has too many values.
func (l Limits) CheckValues(body []byte) error {
	if err := object.LimitValues(body, l.MaxValues); err != nil {
		return &hook.MalformedError{Err: err}
	}
	return nil
}

// TooLarge returns the error for a response of more than MaxResponseBytes.
func (l Limits) TooLarge() error {
	size, unit := l.MaxResponseBytes, "bytes"
	if size >= 1<<20 && size%(1<<20) == 0 {
		size, unit = size>>20, "MiB"
	}
	return &hook.MalformedError{Err: fmt.Errorf("larger than %d %s", size, unit)}
}

// MaxRetryAfter limits the delay that a hook can request.
const MaxRetryAfter = 24 * time.Hour

// OwnError returns the error that a response without a status code can be, such as {"error": "message",
// "retryAfterSeconds": 5}; nil if it is none. The error of a handler is an object, and part of its response.
func OwnError(response []byte, limits Limits) error {
	var failed struct {
		Error             string
		RetryAfterSeconds float64
	}
	const most = 64 // More would be for spaces only.
	beginning := strings.ReplaceAll(string(response[:min(len(response), most)]), " ", "")
	mayBe := strings.HasPrefix(beginning, `{"error":`) || strings.HasPrefix(beginning, `{"retryAfterSeconds":`)
	if !mayBe || json.Unmarshal(response, &failed) != nil || failed.Error == "" {
		return nil //nolint:nilerr // Then it is no error of the hook.
	}
	own := errors.New(Quote(failed.Error, limits.MaxErrorBytes))
	if after := min(failed.RetryAfterSeconds, MaxRetryAfter.Seconds()); after > 0 {
		return &hook.RetryAfterError{After: time.Duration(after * float64(time.Second)), Err: own}
	}
	return own
}

// Quote returns at most limit bytes of s on one line.
func Quote(s string, limit int) string {
	if limit == 0 {
		return ""
	}
	s = strings.ToValidUTF8(s[:min(len(s), 4*limit)], "?")
	words := strings.FieldsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) })
	line := strings.Join(words, " ")
	if len(line) <= limit {
		return line
	}
	return strings.ToValidUTF8(line[:limit], "") + "…"
}
