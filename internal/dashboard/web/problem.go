package web

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/dashboard/access"
	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/format"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Problem is an error page.
type Problem struct {
	Status int
	Title  string
	// Text says what happened, Hint what to do next.
	Text, Hint string
	// Commands are commands that may solve it.
	Commands []string
	// AutoRetry makes the page reload automatically.
	AutoRetry bool
	// BackURL is the page to send the form again from.
	BackURL string
	// Form is the form to send again.
	Form url.Values
}

func (p *Problem) Error() string { return p.Text }

// NotFound returns a 404 problem.
func NotFound(text string, args ...any) error {
	return &Problem{
		Status: http.StatusNotFound, Title: "Not found", Text: fmt.Sprintf(text, args...),
		Hint: "It may have been deleted, or its process may have stopped.",
	}
}

// BadRequest returns a 400 problem.
func BadRequest(text string, args ...any) error {
	return &Problem{Status: http.StatusBadRequest, Title: "Bad request", Text: fmt.Sprintf(text, args...)}
}

const problemPage = "problem"

// ProblemOf is the one place where errors become problems.
func ProblemOf(err error) *Problem {
	if known, ok := errors.AsType[*Problem](err); ok {
		return known
	}
	problem := func(status int, title, text, hint string) *Problem {
		return &Problem{Status: status, Title: title, Text: text, Hint: hint}
	}
	text := err.Error()
	sentence := format.Capitalize(text) + "."
	if _, ambiguous := errors.AsType[*userclient.AmbiguousError](err); ambiguous {
		return problem(http.StatusBadRequest, "Ambiguous kind", sentence, "")
	}
	switch {
	case errors.Is(err, access.ErrBadForm):
		return formProblem(err)
	case errors.Is(err, access.ErrHost), errors.Is(err, access.ErrCrossSite), errors.Is(err, access.ErrProxyUser):
		return problem(http.StatusForbidden, "Forbidden", sentence, "")
	case errors.Is(err, form.ErrInputTooLarge):
		return problem(http.StatusUnprocessableEntity, "Too large", sentence, "")
	case errors.Is(err, failure.ErrNotFound), apierrors.IsNotFound(err), apierrors.IsGone(err):
		return problem(http.StatusNotFound, "Not found", text, "It may have been deleted.")
	case apierrors.IsMethodNotSupported(err):
		return problem(http.StatusMethodNotAllowed, "Not supported", text, "The API server does not support this for this kind.")
	case apierrors.IsUnauthorized(err):
		return problem(http.StatusUnauthorized, "Signed out", "The API server no longer accepts your credentials: "+text, "Sign in again.")
	case apierrors.IsForbidden(err):
		return forbiddenProblem(err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return problem(http.StatusUnprocessableEntity, "Rejected by the API server", text, "")
	case userclient.IsUnreachable(err):
		p := problem(http.StatusServiceUnavailable, "API server unreachable", sentence, "This page reloads automatically when it responds.")
		p.AutoRetry = true
		return p
	}
	return problem(http.StatusInternalServerError, "Internal error", text, "")
}

// formProblem returns the problem of a form that did not arrive.
func formProblem(err error) *Problem {
	p := &Problem{
		Status: http.StatusBadRequest, Title: "Bad request", Text: format.Capitalize(err.Error()) + ".",
		Hint: "Reload the page and send it again.",
	}
	if large, is := errors.AsType[*http.MaxBytesError](err); is {
		p.Status, p.Title, p.Hint = http.StatusRequestEntityTooLarge, "Request too large", "Make it smaller, or use kubectl."
		p.Text = "The form is larger than " + format.Bytes(int(large.Limit)) + ", the limit of the dashboard."
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		p.Status, p.Title, p.Hint = http.StatusRequestTimeout, "Request timed out", "Send it again, or use kubectl."
		p.Text = "The form took too long to arrive."
	}
	p.Text += " Nothing was changed."
	return p
}

// forbiddenProblem names the missing permission, or the policy that rejected the request.
func forbiddenProblem(err error) *Problem {
	if right, missing := userclient.MissingPermission(err); missing {
		return PermissionProblem(right)
	}
	text, _ := userclient.DescribeError(err)
	return &Problem{
		Status: http.StatusForbidden, Title: "Rejected by policy", Text: text, Hint: "A policy of the cluster rejected the request.",
	}
}

// PermissionProblem returns the problem of a missing permission.
func PermissionProblem(right userclient.Permission) *Problem {
	return &Problem{
		Status: http.StatusForbidden, Title: "Forbidden",
		Text: right.Missing() + ".", Hint: "A cluster admin can grant it with:", Commands: right.Commands(),
	}
}

// Missing says that the user does not have a permission: for all objects of a kind in a namespace,
// or in all if that is "".
func Missing(verb string, kind object.Kind, namespace string) string {
	return userclient.Permission{
		Verb: verb, Resource: cmp.Or(kind.Plural, strings.ToLower(kind.Kind)), Group: kind.Group, Namespace: kind.Within(namespace),
	}.Missing() + "."
}

// Forbidden is missing as a sentence of its own.
func Forbidden(verb string, kind object.Kind, namespace string) string {
	return "Forbidden: " + Missing(verb, kind, namespace)
}
