// Package wire reads a process from another one: Handler serves a inspect.Source over HTTP as
// JSON, and NewClient reads it.
//
// It holds the paths, errors, limits and the authentication of requests. It does not find
// processes or check permissions of users. The manager serves it; package locate creates
// clients.
package wire

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// Version is the version of paths and types.
const Version = "v2"

// Prefix is the path prefix of a Handler.
const Prefix = "/inspect/" + Version + "/"

// The paths below Prefix.
const (
	pathProcess     = "process"
	pathControllers = "controllers"
	pathObjects     = "objects"
	pathAbout       = "about"
	pathRuns        = "runs"
	pathReviews     = "reviews"
	pathPlan        = "plan"
	// An older process would ignore the edited object in the body of pathPlan.
	pathPlanEdited  = "plan-edited"
	pathRevision    = "revision"
	pathRecording   = "recording"
	pathLogLevel    = "log-level"
	pathDiagnostics = "diagnostics"
)

// The parameters. Ref, Query and Filter are JSON.
const (
	paramController = "controller"
	paramRef        = "ref"
	paramQuery      = "query"
	paramLimit      = "limit"
	paramSince      = "since"
	paramDetailed   = "detailed"
	paramTokens     = "tokens"
	paramFilter     = "filter"
	paramName       = "name"
)

// arguments are the arguments of the methods of inspect.Source.
type arguments struct {
	controller string
	ref        object.Ref
	query      inspect.Query
	limit      int
	since      uint64
	detailed   bool
	tokens     bool
	filter     recording.Filter
	// name is a log level or a diagnostic.
	name string
}

// encoded returns the parameters that are JSON.
func (a *arguments) encoded() map[string]any {
	return map[string]any{paramRef: &a.ref, paramQuery: &a.query, paramLimit: &a.limit, paramSince: &a.since, paramDetailed: &a.detailed,
		paramTokens: &a.tokens, paramFilter: &a.filter}
}

// values returns the arguments as parameters of a request.
func (a *arguments) values() url.Values {
	values := url.Values{}
	if a.controller != "" {
		values.Set(paramController, a.controller)
	}
	if a.name != "" {
		values.Set(paramName, a.name)
	}
	for name, value := range a.encoded() {
		if of := reflect.ValueOf(value).Elem(); !of.IsZero() {
			text, _ := json.Marshal(value) //nolint:errchkjson // All of them can be encoded.
			values.Set(name, string(text))
		}
	}
	return values
}

// readArguments reads the parameters of a request.
func readArguments(r *http.Request) (arguments, error) {
	given := r.URL.Query()
	a := arguments{controller: given.Get(paramController), name: given.Get(paramName)}
	for name, into := range a.encoded() {
		if text := given.Get(name); text != "" {
			if err := decodeStrictly(text, into); err != nil {
				return a, badRequest(fmt.Errorf("parameter %s: %w", name, err))
			}
		}
	}
	for _, limit := range []int{a.limit, a.query.Limit} {
		if limit < 0 || limit > MaxLimit {
			return a, badRequest(fmt.Errorf("limit %d must be between 0 and %d", limit, MaxLimit))
		}
	}
	return a, nil
}

// decodeStrictly decodes a parameter. A filter of a newer client that this process does not know
// is an error: without it, the client would get more than it asked for.
func decodeStrictly(text string, into any) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// The limits.
const (
	// maxQuery is the longest query of a URL in bytes.
	maxQuery = 16 << 10
	// MaxLimit is the most objects or runs in one response.
	MaxLimit = 10_000
	// maxResponse is the longest response a client reads, in bytes.
	maxResponse = 256 << 20
	// maxPoll is the duration of a long poll, less than common proxy timeouts.
	maxPoll = 30 * time.Second
	// maxWait is the timeout of other requests.
	maxWait = 30 * time.Second
	// maxPlan is the timeout of a plan, which calls hooks.
	maxPlan = time.Minute
	// maxEdited is the size of the largest edited object.
	maxEdited = 4 << 20
	// maxPlans is the number of concurrent plans.
	maxPlans = 8
)

// The reasons of errors, for programs.
const (
	reasonNotFound     = "NotFound"
	reasonBadRequest   = "BadRequest"
	reasonForbidden    = "Forbidden"
	reasonUnauthorized = "Unauthorized"
	reasonClosed       = "Closed"
	reasonVersion      = "UnknownVersion"
	reasonBusy         = "Busy"
	reasonFailed       = "Failed"
)

// errorBody is the body of an error.
type errorBody struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
}

// revision is the response to Await.
type revision struct {
	Revision uint64 `json:"revision"`
}
