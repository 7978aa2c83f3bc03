package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// statusError is an error with its HTTP status and reason.
type statusError struct {
	status int
	reason string
	error
}

func (r statusError) Unwrap() error { return r.error }

// route handles a request.
type route func(source model.Source, r *http.Request) (any, error)

// Handler serves a Source below Prefix, for requests that the Guard admits by their bearer
// token.
func Handler(source model.Source, guard Guard) http.Handler {
	mux := http.NewServeMux()
	serve := func(pattern string, find route) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			response, err := find(source, r)
			writeResponse(w, response, err)
		})
	}
	serve("GET "+Prefix+pathProcess, process)
	serve("GET "+Prefix+pathControllers, controllers)
	serve("GET "+Prefix+pathObjects, objects)
	serve("GET "+Prefix+pathAbout, about)
	serve("GET "+Prefix+pathRuns, runs)
	serve("GET "+Prefix+pathRuns+"/{id}", run)
	serve("POST "+Prefix+pathPlan, planRoute())
	serve("GET "+Prefix+pathRevision, await)
	serve("/", unknown)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := check(r, guard); err != nil {
			writeResponse(w, nil, err)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

func process(source model.Source, r *http.Request) (any, error) {
	return source.Process(r.Context())
}

func controllers(source model.Source, r *http.Request) (any, error) {
	return source.Controllers(r.Context())
}

func objects(source model.Source, r *http.Request) (any, error) {
	var q model.Query
	if err := decodeParameter(r, paramQuery, &q); err != nil {
		return nil, err
	}
	if err := checkLimit(q.Limit); err != nil {
		return nil, err
	}
	return source.Objects(r.Context(), r.FormValue(paramController), q)
}

func about(source model.Source, r *http.Request) (any, error) {
	var ref object.Ref
	if err := decodeParameter(r, paramRef, &ref); err != nil {
		return nil, err
	}
	return source.States(r.Context(), ref)
}

func runs(source model.Source, r *http.Request) (any, error) {
	var ref object.Ref
	var limit int
	if err := errors.Join(decodeParameter(r, paramRef, &ref), decodeParameter(r, paramLimit, &limit)); err != nil {
		return nil, err
	}
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	return source.Runs(r.Context(), ref, limit)
}

func run(source model.Source, r *http.Request) (any, error) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil {
		return nil, badRequest(fmt.Errorf("run ID: %w", err))
	}
	return source.Run(r.Context(), id)
}

// planRoute limits concurrent plans, because each calls hooks.
func planRoute() route {
	turns := make(chan struct{}, maxPlans)
	return func(source model.Source, r *http.Request) (any, error) {
		var ref object.Ref
		if err := decodeParameter(r, paramRef, &ref); err != nil {
			return nil, err
		}
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
		default:
			return nil, statusError{http.StatusTooManyRequests, reasonBusy, fmt.Errorf("%d plans are running; retry later", maxPlans)}
		}
		ctx, cancel := context.WithTimeout(r.Context(), maxPlan)
		defer cancel()
		return source.Plan(ctx, r.FormValue(paramController), ref)
	}
}

// await responds once the revision changes, or after maxPoll.
func await(source model.Source, r *http.Request) (any, error) {
	var since uint64
	if err := decodeParameter(r, paramSince, &since); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), maxPoll)
	defer cancel()
	now, err := source.Await(ctx, since)
	if errors.Is(err, context.DeadlineExceeded) {
		return revision{since}, nil
	}
	return revision{now}, err
}

func unknown(_ model.Source, r *http.Request) (any, error) {
	return nil, statusError{http.StatusNotFound, reasonVersion, fmt.Errorf("unknown endpoint %s %s; this process serves %s", r.Method, r.URL.Path, Prefix)}
}

// decodeParameter decodes a JSON parameter, if it is present.
func decodeParameter(r *http.Request, name string, into any) error {
	text := r.URL.Query().Get(name)
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return badRequest(fmt.Errorf("parameter %s: %w", name, err))
	}
	return nil
}

func checkLimit(limit int) error {
	if limit < 0 || limit > MaxLimit {
		return badRequest(fmt.Errorf("limit %d must be between 0 and %d", limit, MaxLimit))
	}
	return nil
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
	if errors.Is(err, model.ErrNotFound) {
		return statusError{http.StatusNotFound, reasonNotFound, err}
	}
	return statusError{http.StatusInternalServerError, reasonFailed, err}
}
