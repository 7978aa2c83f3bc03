// Package wire reads a process from another one: Handler serves a inspect.Source over HTTP as
// JSON, and NewClient reads it.
//
// It holds the paths, errors, limits and the authentication of requests. It does not find processes or check
// permissions of users. The manager serves it; package locate creates clients.
package wire

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// Version is the version of paths and types.
const Version = "v3"

// Prefix is the path prefix of a Handler. Below it each method has a path, which takes its arguments in a POST.
const Prefix = "/inspect/" + Version + "/"

// The paths below Prefix.
const (
	pathProcess     = "process"
	pathControllers = "controllers"
	pathObjects     = "objects"
	pathAbout       = "about"
	pathRuns        = "runs"
	pathRun         = "run"
	pathReviews     = "reviews"
	pathPlan        = "plan"
	pathRevision    = "revision"
	pathRecording   = "recording"
	pathLogLevel    = "log-level"
	pathDiagnostics = "diagnostics"
)

// arguments are the arguments of the methods of inspect.Source, in the body of a request.
type arguments struct {
	Controller string           `json:"controller,omitempty"`
	Ref        object.Ref       `json:"ref,omitzero"`
	Query      inspect.Query    `json:"query,omitzero"`
	Limit      int              `json:"limit,omitempty"`
	Since      uint64           `json:"since,omitempty"`
	ID         uint64           `json:"id,omitempty"`
	Detailed   bool             `json:"detailed,omitempty"`
	Tokens     bool             `json:"tokens,omitempty"`
	Filter     recording.Filter `json:"filter,omitzero"`
	Edited     json.RawMessage  `json:"edited,omitempty"`
	// Name is a log level or a diagnostic.
	Name string `json:"name,omitempty"`
}

// readArguments reads the body of a request. A filter of a newer client that this process does not know
// is an error: without it, the client would get more than it asked for.
func readArguments(r *http.Request) (a arguments, err error) {
	decoder := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&a); err != nil && !errors.Is(err, io.EOF) {
		return a, badRequest(fmt.Errorf("arguments: %w", err))
	}
	for _, limit := range []int{a.Limit, a.Query.Limit} {
		if limit < 0 || limit > MaxLimit {
			return a, badRequest(fmt.Errorf("limit %d must be between 0 and %d", limit, MaxLimit))
		}
	}
	return a, nil
}

// The limits.
const (
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
	// maxBody is the size of the largest request, with an edited object.
	maxBody = 4 << 20
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

type errorBody struct {
	Error  string `json:"error"`
	Reason string `json:"reason"`
}

// Guard authenticates requests.
type Guard interface {
	// Admit returns nil for a valid token and ErrToken for a missing or invalid one. Any
	// other error means that the token could not be checked; the client sees it.
	Admit(ctx context.Context, token string) error
}

// Credential provides the token of a client.
type Credential interface {
	// Token returns the token, or "" if there is none yet. refused is the token that was rejected before, or "".
	Token(ctx context.Context, refused string) (string, error)
}

// ErrToken is returned for a missing or invalid token.
var ErrToken = errors.New("missing or invalid token")

// Token is a Guard and a Credential with a fixed token. The empty Token admits no request.
type Token string

// Admit implements Guard. It compares in constant time.
func (t Token) Admit(_ context.Context, given string) error {
	if t == "" || subtle.ConstantTimeCompare([]byte(given), []byte(t)) != 1 {
		return ErrToken
	}
	return nil
}

// Token implements Credential.
func (t Token) Token(context.Context, string) (string, error) { return string(t), nil }

// check authenticates a request. Web pages must not read this endpoint: browsers send an
// Origin, and the Host of a rebound DNS name is not an address.
func check(r *http.Request, guard Guard) error {
	switch {
	case r.Header.Get("Origin") != "":
		return statusError{http.StatusForbidden, reasonForbidden, errors.New("not for web pages")}
	case !isAddress(r.Host):
		return statusError{http.StatusForbidden, reasonForbidden, fmt.Errorf("host %q: use an IP address, or localhost", r.Host)}
	}
	err := guard.Admit(r.Context(), bearer(r))
	switch {
	case errors.Is(err, ErrToken):
		return statusError{http.StatusUnauthorized, reasonUnauthorized, err}
	case err != nil:
		return statusError{http.StatusServiceUnavailable, reasonClosed, err}
	}
	return nil
}

// isAddress reports whether a host is an IP address or localhost; other names may resolve to anything.
func isAddress(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return host == "localhost" || net.ParseIP(host) != nil
}

func bearer(r *http.Request) string {
	token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is {
		return ""
	}
	return token
}
