package loop

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Call is a call of a hook in a run.
type Call struct {
	// Hook is the program and the hook, such as "rolling-sets sync".
	Hook string
	// Request identifies the request in this process.
	Request uint64
	Err     error
}

// callRecorder calls hooks through the memo and notes the calls of the current run.
type callRecorder struct {
	memo *Memo
	ctx  context.Context //nolint:containedctx // It is that of the current run, to tell it from those of calls.
	made []Call
}

func (c *callRecorder) begin(ctx context.Context) { c.ctx, c.made = ctx, nil }

// respond makes a call, unless the run has been stopped.
func respond[T any](ctx context.Context, c *callRecorder, name string, request digests, do func() (*T, bool, error)) (*T, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	value, err := c.memo.respond(call{
		hook: name, request: request, interrupted: c.ctx.Err,
		do: func() (any, []byte, bool, error) {
			response, pure, err := recovered(do)
			if response == nil {
				return nil, nil, pure, err
			}
			text, jsonErr := json.Marshal(comparedPart(response))
			return response, text, pure && jsonErr == nil, err
		},
	})
	c.made = append(c.made, Call{Hook: name, Request: request.exact, Err: err})
	response, _ := value.(*T)
	return response, err
}

// comparedPart returns a response with all that is compared.
func comparedPart(response any) any {
	switch r := response.(type) {
	case *hook.Response:
		return struct {
			*hook.Response

			ResyncAfter string `json:"resyncAfter"`
		}{r, r.ResyncAfter.String()}
	case *hook.HandlerResponse:
		return struct {
			*hook.HandlerResponse

			Apply         []hook.AppliedObject `json:"apply"`
			Error         string               `json:"error"`
			RetryAfter    string               `json:"retryAfter"`
			NotApplicable bool                 `json:"notApplicable"`
		}{r, r.Apply, failure.Text(r.Err), r.RetryAfter.String(), r.NotApplicable}
	}
	return response
}

// recovered is do with a panic as an error, which the memo can keep.
func recovered[T any](do func() (*T, bool, error)) (response *T, pure bool, err error) {
	pure = true
	err = failure.Recover("the function", func() (err error) {
		response, pure, err = do()
		return err
	})
	return response, pure, err
}

// hook returns a hook that is called through the memo; nil for nil.
func (c *callRecorder) hook(name string, h hook.Hook) hook.Hook {
	if h == nil {
		return nil
	}
	return hook.Func(func(ctx context.Context, request *hook.Request) (*hook.Response, error) {
		response, err := respond(ctx, c, name, digestsOf(request), func() (*hook.Response, bool, error) {
			response, err := h.Call(ctx, request)
			return response, true, err
		})
		return ownResponse(response), err
	})
}

// ownResponse returns a copy that the caller may change.
func ownResponse(r *hook.Response) *hook.Response {
	if r == nil {
		return nil
	}
	own := *r
	own.Children, own.Events, own.Conditions = slices.Clone(r.Children), slices.Clone(r.Events), slices.Clone(r.Conditions)
	own.Labels, own.Annotations = maps.Clone(r.Labels), maps.Clone(r.Annotations)
	return &own
}

func (c *callRecorder) customizer(name string, h hook.Customizer) hook.Customizer {
	if h == nil {
		return nil
	}
	return hook.CustomizerFunc(func(ctx context.Context, request *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		response, err := respond(ctx, c, name, customizeDigests(request), func() (*hook.CustomizeResponse, bool, error) {
			response, err := h.Customize(ctx, request)
			return response, true, err
		})
		if response == nil {
			return nil, err
		}
		return &hook.CustomizeResponse{Related: slices.Clone(response.Related)}, err
	})
}

func (c *callRecorder) handler(name string, h hook.Handler) hook.Handler {
	if h == nil {
		return nil
	}
	return hook.HandlerFunc(func(ctx context.Context, request *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		response, err := respond(ctx, c, name, handlerDigests(request), func() (*hook.HandlerResponse, bool, error) {
			reads := &readNoter{Reader: request.Reader}
			noted := *request
			if request.Reader != nil {
				noted.Reader = reads
			}
			response, err := h.Handle(ctx, &noted)
			return response, !reads.used, err
		})
		if response == nil {
			return nil, err
		}
		own := *response
		own.Apply, own.Delete = slices.Clone(response.Apply), slices.Clone(response.Delete)
		own.Events, own.Conditions = slices.Clone(response.Events), slices.Clone(response.Conditions)
		return &own, err
	})
}

// readNoter notes that a handler reads from the API server: its response depends on more than its request.
type readNoter struct {
	hook.Reader

	used bool
}

// List notes the call.
func (r *readNoter) List(ctx context.Context, apiVersion, kind, namespace, selector string) (hook.Group, error) {
	r.used = true
	return r.Reader.List(ctx, apiVersion, kind, namespace, selector)
}
