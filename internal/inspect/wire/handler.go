package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

type statusError struct {
	status int
	reason string
	error
}

func (r statusError) Unwrap() error { return r.error }

// Handler serves a Source below Prefix, for requests that the Guard admits by their bearer token.
func Handler(source inspect.Source, guard Guard) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Prefix+pathRecording, recordHandler(source))
	for path, call := range methods(source) {
		mux.HandleFunc("POST "+Prefix+path, func(w http.ResponseWriter, r *http.Request) {
			var response any
			a, err := readArguments(r)
			if err == nil {
				response, err = call(r.Context(), a)
			}
			writeResponse(w, response, err)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeResponse(w, nil, statusError{http.StatusNotFound, reasonVersion, fmt.Errorf("unknown endpoint %s %s; this process serves %s",
			r.Method, r.URL.Path, Prefix)})
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r, guard); err != nil {
			writeResponse(w, nil, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func methods(source inspect.Source) map[string]func(context.Context, arguments) (any, error) {
	plans := make(chan struct{}, maxPlans)
	return map[string]func(context.Context, arguments) (any, error){
		pathProcess:     func(ctx context.Context, _ arguments) (any, error) { return source.Process(ctx) },
		pathControllers: func(ctx context.Context, _ arguments) (any, error) { return source.Controllers(ctx) },
		pathObjects:     func(ctx context.Context, a arguments) (any, error) { return source.Objects(ctx, a.Controller, a.Query) },
		pathAbout:       func(ctx context.Context, a arguments) (any, error) { return source.States(ctx, a.Ref) },
		pathRuns:        func(ctx context.Context, a arguments) (any, error) { return source.Runs(ctx, a.Ref, a.Limit) },
		pathReviews: func(ctx context.Context, a arguments) (any, error) {
			return source.Reviews(ctx, a.Controller, a.Detailed)
		},
		pathDiagnostics: func(ctx context.Context, a arguments) (any, error) { return source.Diagnostic(ctx, a.Name) },
		pathLogLevel: func(ctx context.Context, a arguments) (any, error) {
			return struct{}{}, source.SetLogLevel(ctx, a.Name)
		},
		pathRun:      func(ctx context.Context, a arguments) (any, error) { return source.Run(ctx, a.ID, a.Tokens) },
		pathPlan:     func(ctx context.Context, a arguments) (any, error) { return plan(ctx, source, plans, a) },
		pathRevision: func(ctx context.Context, a arguments) (any, error) { return await(ctx, source, a.Since) },
	}
}

// plan limits concurrent plans by their turns, because each calls hooks.
func plan(ctx context.Context, source inspect.Source, turns chan struct{}, a arguments) (any, error) {
	select {
	case turns <- struct{}{}:
		defer func() { <-turns }()
	default:
		return nil, statusError{http.StatusTooManyRequests, reasonBusy, fmt.Errorf("%d plans are running; retry later", maxPlans)}
	}
	ctx, cancel := context.WithTimeout(ctx, maxPlan)
	defer cancel()
	return source.Plan(ctx, a.Controller, a.Ref, a.Edited)
}

// await responds once the revision changes, or after maxPoll.
func await(ctx context.Context, source inspect.Source, since uint64) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, maxPoll)
	defer cancel()
	now, err := source.Await(ctx, since)
	if errors.Is(err, context.DeadlineExceeded) {
		return since, nil
	}
	return now, err
}

func badRequest(err error) error { return statusError{http.StatusBadRequest, reasonBadRequest, err} }

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

func statusErrorOf(err error) statusError {
	if r, ok := errors.AsType[statusError](err); ok {
		return r
	}
	if errors.Is(err, failure.ErrNotFound) {
		return statusError{http.StatusNotFound, reasonNotFound, err}
	}
	return statusError{http.StatusInternalServerError, reasonFailed, err}
}

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
