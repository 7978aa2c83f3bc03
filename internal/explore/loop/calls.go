package loop

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/hook/codec"
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
	// external is what hooks call outside of the cluster; nil for nothing.
	external *externalClient
	// indexed is the digest of what indexes may have in the current run; zero without indexes.
	indexed uint64
	ctx     context.Context //nolint:containedctx // It is that of the current run, to tell it from those of calls.
	made    []Call
}

func (c *callRecorder) begin(ctx context.Context) { c.ctx, c.made, c.indexed = ctx, nil, 0 }

// hookCall calls a hook. Pure is false if the response depends on more than the request.
type hookCall[T any] func(ctx context.Context) (response *T, pure bool, err error)

// callResult is what a call returns, and the state of the external system after it.
type callResult[T any] struct {
	response *T
	after    []byte
}

// respond makes a call, unless the run has been stopped.
func respond[T any](ctx context.Context, c *callRecorder, name string, request digests, do hookCall[T]) (*T, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	made, err := c.remembered(ctx, name, request, func(ctx context.Context) (any, []byte, bool, error) {
		response, pure, err := recovered(ctx, do)
		if response == nil {
			return callResult[T]{}, nil, pure, err
		}
		text, jsonErr := json.Marshal(comparedPart(response))
		return callResult[T]{response: response}, text, pure && jsonErr == nil, err
	})
	result, _ := made.(callResult[T])
	return result.response, err
}

// respondOutside is respond for a call that may reach the external system, if there is one.
func respondOutside[T any](ctx context.Context, c *callRecorder, name string, request digests, do hookCall[T]) (*T, error) {
	if c.external == nil {
		return respond(ctx, c, name, request, do)
	}
	for {
		before, err := c.external.read()
		if err != nil {
			return nil, err
		}
		made, err := c.remembered(ctx, name, request.with(before.state), func(ctx context.Context) (any, []byte, bool, error) {
			return outside(ctx, c.external.External, before.state, do)
		})
		if broken, is := errors.AsType[systemError](err); is {
			c.external.transport.abort(broken)
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		result, _ := made.(callResult[T])
		switch failed := c.external.write(before, result.after); {
		case failed == nil:
			return result.response, err
		case !errors.Is(failed, errExternalChanged):
			return nil, failed // Whether the call had its effects, the caller cannot know.
		}
	}
}

// outside calls a function while the external system has a state. The response as text has the state after it, too.
func outside[T any](ctx context.Context, e *External, before []byte, do hookCall[T]) (made any, text []byte, pure bool, err error) {
	var response *T
	after, failed := e.In(before, func() { response, pure, err = recovered(ctx, do) })
	if failed != nil {
		return nil, nil, false, failed
	}
	var part any
	if response != nil {
		part = comparedPart(response)
	}
	text, jsonErr := json.Marshal(map[string]any{"response": part, "external": json.RawMessage(after)})
	return callResult[T]{response, after}, text, pure && jsonErr == nil, err
}

// remembered makes a call through the memo and notes it.
func (c *callRecorder) remembered(ctx context.Context, name string, request digests,
	do func(context.Context) (any, []byte, bool, error)) (any, error) {
	inRun := c.indexed != 0
	if inRun {
		request = request.with(binary.LittleEndian.AppendUint64(nil, c.indexed))
	}
	value, err := c.memo.respond(ctx, call{hook: name, request: request, inRun: inRun, interrupted: c.ctx.Err, do: do})
	c.made = append(c.made, Call{Hook: name, Request: request.exact, Err: err})
	return value, err
}

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
func recovered[T any](ctx context.Context, do hookCall[T]) (response *T, pure bool, err error) {
	pure = true
	err = failure.Recover("the function", func() (err error) {
		response, pure, err = do(ctx)
		return err
	})
	return response, pure, err
}

// wrapHook returns a hook that is called through the memo; nil for nil.
func (c *callRecorder) wrapHook(name string, h hook.Hook) hook.Hook {
	if h == nil {
		return nil
	}
	return hook.Func(func(ctx context.Context, request *hook.Request) (*hook.Response, error) {
		response, err := respondOutside(ctx, c, name, digestsOf(request), func(ctx context.Context) (*hook.Response, bool, error) {
			response, err := current(c.memo, name, h).Call(ctx, request)
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

func (c *callRecorder) wrapCustomizer(name string, h hook.Customizer) hook.Customizer {
	if h == nil {
		return nil
	}
	return hook.CustomizerFunc(func(ctx context.Context, request *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		digests := newDigests(request.Parent, nil, request.Controller, request.Parent)
		response, err := respond(ctx, c, name, digests, func(ctx context.Context) (*hook.CustomizeResponse, bool, error) {
			response, err := current(c.memo, name, h).Customize(ctx, request)
			return response, true, err
		})
		if response == nil {
			return nil, err
		}
		return &hook.CustomizeResponse{Related: slices.Clone(response.Related)}, err
	})
}

func (c *callRecorder) wrapHandler(name string, h hook.Handler) hook.Handler {
	if h == nil {
		return nil
	}
	return hook.HandlerFunc(func(ctx context.Context, request *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		digests := newDigests(request.Object, nil, codec.AppendHandlerRequest(nil, request), []byte(request.Since.String()))
		response, err := respondOutside(ctx, c, name, digests, func(ctx context.Context) (*hook.HandlerResponse, bool, error) {
			reads := &readNoter{Reader: request.Reader}
			noted := *request
			if request.Reader != nil {
				noted.Reader = reads
			}
			response, err := current(c.memo, name, h).Handle(ctx, &noted)
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
