// Package wire carries what inspect knows of one process to another: Handler serves a
// Source over HTTP as JSON, and NewClient is a Source that reads one so served.
//
// Here live the paths, the form of errors, the limits, and who is refused before
// anything is read. What must not: how a process is found, and whose rights count.
// The host serves, reach makes clients.
package wire

import (
	"net/url"
	"time"
)

// Version is that of paths and types. Another one is another path.
const Version = "v2"

// Prefix is where a Handler answers.
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

// The parameters. A Ref and a Query are JSON, so that they have one form only.
const (
	paramController = "controller"
	paramRef        = "ref"
	paramQuery      = "query"
	paramLimit      = "limit"
	paramSince      = "since"
)

// The limits.
const (
	// maxQuery is the longest query of a URL, in bytes.
	maxQuery = 16 << 10
	// MaxLimit is how many objects or runs can be asked for at once.
	MaxLimit = 10_000
	// maxResponse is the longest answer a client reads, in bytes.
	maxResponse = 256 << 20
	// maxPoll is how long an answer is held back while nothing changes: less than
	// what proxies commonly bear.
	maxPoll = 30 * time.Second
	// maxWait is how long a client waits for any other answer, of whatever length.
	maxWait = 30 * time.Second
	// maxPlan is how long a plan may take: hooks are asked for it.
	maxPlan = time.Minute
	// maxPlans is how many are made at a time.
	maxPlans = 8
)

// Why a request is refused, in a word for programs.
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

// errorBody is the form of an error.
type errorBody struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
}

// revision is the answer to Await.
type revision struct {
	Revision uint64 `json:"revision"`
}

// urlValues are the parameters of a request.
func urlValues(pairs ...string) url.Values {
	values := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	return values
}
