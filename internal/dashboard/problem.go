package dashboard

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
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// problem is why there is no page, in words for who wanted it.
type problem struct {
	Status int
	Title  string
	// Text says what happened, and Hint what to do about it.
	Text, Hint string
	// Commands are what somebody could type who may do something about it.
	Commands []string
	// AutoRetry says that the page asks again by itself.
	AutoRetry bool
	// BackURL is the page from which something was sent that is to be sent again.
	BackURL string
	// Form is a form that can be sent again, as it was.
	Form url.Values
}

func (p *problem) Error() string { return p.Text }

// notFound is the problem that something is not there.
func notFound(format string, args ...any) error {
	return &problem{
		Status: http.StatusNotFound, Title: "Not here", Text: fmt.Sprintf(format, args...),
		Hint: "It may have been deleted, or its process may have ended, since this link was made.",
	}
}

// badRequest is the problem that what was asked for makes no sense.
func badRequest(format string, args ...any) error {
	return &problem{Status: http.StatusBadRequest, Title: "That does not work", Text: fmt.Sprintf(format, args...)}
}

// pageNotFound answers for pages that do not exist.
func pageNotFound(req *request) error { return notFound("There is no page %s.", req.r.URL.Path) }

// problemPage is the name of the page of a problem.
const problemPage = "problem"

// renderError answers with the page of a problem; who has to sign in is led to where that
// is done, and from there back.
func (req *request) renderError(err error) {
	if req.redirectIfSignedOut(err) {
		return
	}
	p := req.problemFor(err)
	if p.Status >= http.StatusInternalServerError && req.context().Err() == nil {
		req.log.Error("a page cannot be shown", "path", req.r.URL.Path, "error", err.Error())
	}
	if p.AutoRetry {
		req.w.Header().Set("Retry-After", retryAfterSeconds)
		req.w.Header().Set("Refresh", retryAfterSeconds) // Browsers load the page again, without a script.
	}
	// Who asked by a script gets it in a line.
	req.w.Header().Set("X-Problem", url.PathEscape(strings.ToValidUTF8(p.Text[:min(len(p.Text), 1000)], "")))
	shown := page{Name: problemPage, Title: p.Title, Status: p.Status, Data: p}
	if failed := req.render(shown); failed != nil {
		http.Error(req.w, p.Text, p.Status)
	}
}

// retryAfterSeconds is after how many seconds a page comes again for which nobody answered.
const retryAfterSeconds = "3"

// problemFor is what an error means for this visit. That something is missing, or not
// allowed, is said only if its rights are known.
func (req *request) problemFor(err error) *problem {
	if known, ok := errors.AsType[*problem](err); ok && known.Status < http.StatusInternalServerError {
		err = cmp.Or(req.accessErrors.first(), err)
	}
	p := *problemOf(err)
	if req.context().Err() != nil {
		// Whoever is still there to read this asks the process that comes next.
		p = problem{
			Status: http.StatusServiceUnavailable, Title: "No answer", Text: "Setpoint ended before the page was made.", AutoRetry: true,
			Hint: "This page comes back by itself when it runs again.",
		}
	}
	if p.AutoRetry && req.r.Method != http.MethodGet && req.r.Method != http.MethodHead {
		p.AutoRetry, p.BackURL = false, req.returnURL()
		p.Hint = "It is not known whether anything was changed. Go back, see whether it was, and send it again if not."
	}
	return &p
}

// problemOf finds the words for an error: the one place where errors become pages.
func problemOf(err error) *problem {
	if known, ok := errors.AsType[*problem](err); ok {
		return known
	}
	if several, ok := errors.AsType[*userclient.AmbiguousError](err); ok {
		return &problem{Status: http.StatusBadRequest, Title: "Several kinds", Text: capitalize(several.Error()) + "."}
	}
	switch {
	case errors.Is(err, access.ErrBadForm):
		return formProblem(err)
	case errors.Is(err, access.ErrHost), errors.Is(err, access.ErrCrossSite), errors.Is(err, access.ErrProxyUser):
		return &problem{Status: http.StatusForbidden, Title: "Not like that", Text: capitalize(err.Error()) + "."}
	case errors.Is(err, form.ErrInputTooLarge):
		return &problem{Status: http.StatusUnprocessableEntity, Title: "Too large", Text: capitalize(err.Error()) + "."}
	case errors.Is(err, model.ErrNotFound), apierrors.IsNotFound(err), apierrors.IsGone(err):
		return &problem{
			Status: http.StatusNotFound, Title: "Not here", Text: err.Error(),
			Hint: "It may have been deleted since this link was made.",
		}
	case apierrors.IsMethodNotSupported(err):
		return &problem{
			Status: http.StatusMethodNotAllowed, Title: "Not supported", Text: err.Error(),
			Hint: "The API server does not serve this for objects of this kind.",
		}
	case apierrors.IsUnauthorized(err):
		return &problem{
			Status: http.StatusUnauthorized, Title: "Signed out", Text: "The API server does not accept your credentials any more: " + err.Error(),
			Hint: "Sign in again.",
		}
	case apierrors.IsForbidden(err):
		return forbiddenProblem(err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &problem{Status: http.StatusUnprocessableEntity, Title: "The API server refuses that", Text: err.Error()}
	case isUnreachable(err):
		return &problem{
			Status: http.StatusServiceUnavailable, Title: "No answer", Text: capitalize(err.Error()) + ".", AutoRetry: true,
			Hint: "The API server, or the process, does not answer. This page comes back by itself when it does.",
		}
	default:
		return &problem{Status: http.StatusInternalServerError, Title: "Something went wrong", Text: err.Error()}
	}
}

// formProblem is the problem that a form did not arrive as a whole. Nothing was done then.
func formProblem(err error) *problem {
	if large, is := errors.AsType[*http.MaxBytesError](err); is {
		return &problem{
			Status: http.StatusRequestEntityTooLarge, Title: "Too much at once",
			Text: "What was sent has more than " + formatBytes(int(large.Limit)) + ", which is the most that the window takes. Nothing was changed.",
			Hint: "Make it smaller, or send it with kubectl.",
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{
			Status: http.StatusRequestTimeout, Title: "Too slow", Text: "What was sent took too long to arrive. Nothing was changed.",
			Hint: "Send it again, with a better connection, or with kubectl.",
		}
	}
	return &problem{
		Status: http.StatusBadRequest, Title: "That does not work", Text: capitalize(err.Error()) + ". Nothing was changed.",
		Hint: "Load the page again, and send it anew.",
	}
}

// forbiddenProblem is the problem that somebody decided against it: most often that a right is
// missing, which can be named.
func forbiddenProblem(err error) *problem {
	right, missing := userclient.MissingPermission(err)
	if !missing {
		text, _ := userclient.DescribeError(err)
		return &problem{
			Status: http.StatusForbidden, Title: "Not allowed", Text: text,
			Hint: "A policy of the cluster decided so: what it asks for is above.",
		}
	}
	return permissionProblem(right)
}

// permissionProblem is the problem that a visitor has no right to something.
func permissionProblem(right userclient.Permission) *problem {
	return &problem{
		Status: http.StatusForbidden, Title: "Forbidden",
		Text:     fmt.Sprintf("%s has no right to %s.", right.User, right),
		Hint:     "A cluster admin can grant it with:",
		Commands: right.Commands(),
	}
}
