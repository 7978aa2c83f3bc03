package call

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/redact"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Config configures a Hook. Only Transport is required.
type Config struct {
	Transport Transport
	Wire      hook.Wire
	Limits    Limits
	// Observe is called after every call, on the caller's goroutine.
	Observe func(Result)
}

// Hook implements hook.Hook, hook.Customizer, hook.Handler and hook.Admitter, which
// differ only in the wire form.
type Hook struct {
	transport Transport
	wire      hook.Wire
	limits    Limits
	observe   func(Result)
}

var (
	_ hook.Hook       = &Hook{}
	_ hook.Customizer = &Hook{}
	_ hook.Handler    = &Hook{}
	_ hook.Admitter   = &Hook{}
)

// New returns a hook that is called over a transport.
func New(c Config) *Hook {
	return &Hook{transport: c.Transport, wire: c.Wire, limits: c.Limits.withDefaults(), observe: c.Observe}
}

// Timeout is the time limit of a call.
func (h *Hook) Timeout() time.Duration { return h.transport.Timeout() }

// Limits are those of responses.
func (h *Hook) Limits() Limits { return h.limits }

// Close closes the transport.
func (h *Hook) Close() { h.transport.Close() }

// Call implements hook.Hook.
func (h *Hook) Call(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	hookType := Sync
	if req.Finalizing {
		hookType = Finalize
	}
	return do(ctx, h, Request{HookType: hookType, Body: req.AppendJSON(nil, h.wire), Object: req.Parent}, hook.DecodeResponse, h.wire)
}

// Customize implements hook.Customizer.
func (h *Hook) Customize(ctx context.Context, req *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	return do(ctx, h, Request{HookType: Customize, Body: req.AppendJSON(nil), Object: req.Parent},
		hook.DecodeCustomizeResponse, h.wire.Decoding)
}

// Handle implements hook.Handler.
func (h *Hook) Handle(ctx context.Context, req *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	// own is the handler's error, reported by a successful exchange.
	var own error
	resp, err := do(ctx, h, Request{HookType: Handle, Body: req.AppendJSON(nil), Object: req.Object},
		func(body []byte, by hook.Decoding) (resp *hook.HandlerResponse, err error) {
			if resp, err = hook.DecodeHandlerResponse(body, by); !hook.IsMalformed(err) {
				own, err = err, nil
			}
			return resp, err
		}, h.wire.Decoding)
	if err != nil {
		return nil, err
	}
	return resp, own
}

// Admit implements hook.Admitter.
func (h *Hook) Admit(ctx context.Context, req *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	reviewed := req.Object
	if reviewed == nil {
		reviewed = req.OldObject
	}
	return do(ctx, h, Request{HookType: Admit, Body: req.AppendJSON(nil), Object: reviewed}, hook.DecodeReviewResponse, h.wire.Decoding)
}

// do is Do for a response of a type, which decode decodes by the rules of the hook.
func do[R, Rules any](ctx context.Context, h *Hook, req Request, decode func([]byte, Rules) (*R, error), by Rules) (*R, error) {
	var resp *R
	err := h.Do(ctx, req, func(body []byte) (err error) {
		resp, err = decode(body, by)
		return err
	})
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// Do makes a call of any type and reports it. decode decodes the response and may retain
// it.
func (h *Hook) Do(ctx context.Context, req Request, decode func(body []byte) error) error {
	req.Limits = h.limits
	result := Result{HookType: req.HookType, BytesOut: len(req.Body)}
	start := time.Now()
	ctx, span := trace.Start(ctx, trace.Client, "hook", string(req.HookType))
	err := h.exchange(ctx, &req, &result, decode)
	if err != nil {
		err = h.transport.Wrap(req.HookType, err)
	}
	span.SetInt(trace.AttrStatus, result.Code)
	span.End(err)
	h.Report(result, start, err)
	return err
}

func (h *Hook) exchange(ctx context.Context, req *Request, result *Result, decode func(body []byte) error) error {
	resp, err := h.transport.Exchange(ctx, req, result)
	if err != nil {
		return err
	}
	if err := h.limits.CheckValues(resp.Body); err != nil {
		return err
	}
	if err := decode(resp.Body); err != nil {
		return redact.In(resp.Body).Error(err) // The run has not seen it.
	}
	if resp.Valid != nil {
		resp.Valid()
	}
	return nil
}

// Report reports a call that a transport made by itself.
func (h *Hook) Report(result Result, start time.Time, err error) {
	if h.observe != nil {
		result.Duration, result.Err = time.Since(start), err
		h.observe(result)
	}
}
