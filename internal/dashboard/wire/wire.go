// Package wire reads a process from another one: Handler serves a model.Source over HTTP as
// JSON, and NewClient reads it.
//
// It holds the paths, errors, limits and the authentication of requests. It does not find
// processes or check permissions of users. The manager serves it; package discovery creates
// clients.
package wire

import (
	"net/url"
	"time"
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
	pathPlan        = "plan"
	pathRevision    = "revision"
)

// The parameters. Ref and Query are JSON.
const (
	paramController = "controller"
	paramRef        = "ref"
	paramQuery      = "query"
	paramLimit      = "limit"
	paramSince      = "since"
)

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

// urlValues builds the parameters of a request.
func urlValues(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values
}
