package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// statusError is an error with its HTTP status and reason.
type statusError struct {
	status int
	reason string
	error
}

func (r statusError) Unwrap() error { return r.error }

// route handles a request.
type route func(r *http.Request, a arguments) (any, error)

// Handler serves a Source below Prefix, for requests that the Guard admits by their bearer
// token.
func Handler(source inspect.Source, guard Guard) http.Handler {
	mux := http.NewServeMux()
	if calls, has := source.(inspect.CallSource); has {
		mux.HandleFunc("GET "+Prefix+pathRecording, recordHandler(calls))
	}
	for pattern, handle := range routes(source) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			a, err := readArguments(r)
			if err != nil {
				writeResponse(w, nil, err)
				return
			}
			response, err := handle(r, a)
			writeResponse(w, response, err)
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r, guard); err != nil {
			writeResponse(w, nil, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// routes returns the methods of a Source by their patterns.
func routes(source inspect.Source) map[string]route {
	const get = "GET " + Prefix
	plans := planner{source, make(chan struct{}, maxPlans)}
	return map[string]route{
		get + pathProcess:     func(r *http.Request, _ arguments) (any, error) { return source.Process(r.Context()) },
		get + pathControllers: func(r *http.Request, _ arguments) (any, error) { return source.Controllers(r.Context()) },
		get + pathObjects: func(r *http.Request, a arguments) (any, error) {
			return source.Objects(r.Context(), a.controller, a.query)
		},
		get + pathAbout: func(r *http.Request, a arguments) (any, error) { return source.States(r.Context(), a.ref) },
		get + pathRuns:  func(r *http.Request, a arguments) (any, error) { return source.Runs(r.Context(), a.ref, a.limit) },
		get + pathReviews: func(r *http.Request, a arguments) (any, error) {
			return source.Reviews(r.Context(), a.controller, a.detailed)
		},
		get + pathRuns + "/{id}":          runRoute(source),
		"POST " + Prefix + pathPlan:       plans.stored,
		"POST " + Prefix + pathPlanEdited: plans.edited,
		"POST " + Prefix + pathLogLevel: func(r *http.Request, a arguments) (any, error) {
			return struct{}{}, source.SetLogLevel(r.Context(), a.name)
		},
		get + pathDiagnostics: func(r *http.Request, a arguments) (any, error) { return source.Diagnostic(r.Context(), a.name) },
		get + pathRevision: func(r *http.Request, a arguments) (any, error) {
			return await(r.Context(), source, a.since)
		},
		"/": unknown,
	}
}

func runRoute(source inspect.Source) route {
	return func(r *http.Request, a arguments) (any, error) {
		id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
		if err != nil {
			return nil, badRequest(fmt.Errorf("run ID: %w", err))
		}
		if calls, has := source.(inspect.CallSource); has && a.tokens {
			return calls.RunWithTokens(r.Context(), id)
		}
		return source.Run(r.Context(), id)
	}
}

// planner limits concurrent plans, because each calls hooks.
type planner struct {
	source inspect.Source
	turns  chan struct{}
}

func (p planner) stored(r *http.Request, a arguments) (any, error) { return p.plan(r, a, nil) }

// edited plans for the object in the body.
func (p planner) edited(r *http.Request, a arguments) (any, error) {
	edited, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxEdited))
	if err != nil || !json.Valid(edited) {
		return nil, badRequest(cmp.Or(err, errors.New("the edited object is not JSON")))
	}
	return p.plan(r, a, edited)
}

func (p planner) plan(r *http.Request, a arguments, edited json.RawMessage) (any, error) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	default:
		return nil, statusError{http.StatusTooManyRequests, reasonBusy, fmt.Errorf("%d plans are running; retry later", maxPlans)}
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxPlan)
	defer cancel()
	return p.source.Plan(ctx, a.controller, a.ref, edited)
}

// await responds once the revision changes, or after maxPoll.
func await(ctx context.Context, source inspect.Source, since uint64) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, maxPoll)
	defer cancel()
	now, err := source.Await(ctx, since)
	if errors.Is(err, context.DeadlineExceeded) {
		return revision{since}, nil
	}
	return revision{now}, err
}

func unknown(r *http.Request, _ arguments) (any, error) {
	return nil, statusError{http.StatusNotFound, reasonVersion, fmt.Errorf("unknown endpoint %s %s; this process serves %s",
		r.Method, r.URL.Path, Prefix)}
}

func badRequest(err error) error { return statusError{http.StatusBadRequest, reasonBadRequest, err} }

// writeResponse writes a response or an error.
func writeResponse(w http.ResponseWriter, response any, err error) {
	status := http.StatusOK
	if err != nil {
		failed := statusErrorOf(err)
		status, response = failed.status, errorBody{Error: err.Error(), Reason: failed.reason}
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(response) //nolint:errchkjson // Every response can be encoded; the client may be gone.
}

// statusErrorOf converts an error.
func statusErrorOf(err error) statusError {
	if r, ok := errors.AsType[statusError](err); ok {
		return r
	}
	if errors.Is(err, failure.ErrNotFound) {
		return statusError{http.StatusNotFound, reasonNotFound, err}
	}
	return statusError{http.StatusInternalServerError, reasonFailed, err}
}
