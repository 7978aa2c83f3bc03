package ui

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/internal/asuser"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/ui/access"
	"github.com/setpoint-dev/setpoint/internal/ui/form"
)

// problem is why there is no page, in words for who wanted it.
type problem struct {
	Status int
	Title  string
	// Text says what happened, and Hint what to do about it.
	Text, Hint string
	// Commands are what somebody could type who may do something about it.
	Commands []string
	// Retries says that the page asks again by itself.
	Retries bool
	// Back is the page from which something was sent that is to be sent again.
	Back string
	// Sent is a form that can be sent again, as it was.
	Sent url.Values
}

func (p *problem) Error() string { return p.Text }

// missing is the problem that something is not there.
func missing(format string, args ...any) error {
	return &problem{
		Status: http.StatusNotFound, Title: "Not here", Text: fmt.Sprintf(format, args...),
		Hint: "It may have been deleted, or its process may have ended, since this link was made.",
	}
}

// invalid is the problem that what was asked for makes no sense.
func invalid(format string, args ...any) error {
	return &problem{Status: http.StatusBadRequest, Title: "That does not work", Text: fmt.Sprintf(format, args...)}
}

// lost answers for pages that do not exist.
func lost(v *visit) error { return missing("There is no page %s.", v.r.URL.Path) }

// pageOfProblem is the name of the page of a problem.
const pageOfProblem = "problem"

// fail answers with the page of a problem; who has to sign in is led to where that
// is done, and from there back.
func (v *visit) fail(err error) {
	if v.hasToSignIn(err) {
		return
	}
	p := v.whyNot(err)
	if p.Status >= http.StatusInternalServerError && v.context().Err() == nil {
		v.log.Error("a page cannot be shown", "path", v.r.URL.Path, "error", err.Error())
	}
	if p.Retries {
		v.w.Header().Set("Retry-After", retryPage)
		v.w.Header().Set("Refresh", retryPage) // Browsers load the page again, without a script.
	}
	// Who asked by a script gets it in a line.
	v.w.Header().Set("X-Problem", url.PathEscape(strings.ToValidUTF8(p.Text[:min(len(p.Text), 1000)], "")))
	shown := page{Name: pageOfProblem, Title: p.Title, Status: p.Status, Data: p}
	if failed := v.render(shown); failed != nil {
		http.Error(v.w, p.Text, p.Status)
	}
}

// retryPage is after how many seconds a page comes again for which nobody answered.
const retryPage = "3"

// whyNot is what an error means for this visit. That something is missing, or not
// allowed, is said only if its rights are known.
func (v *visit) whyNot(err error) *problem {
	if known, ok := errors.AsType[*problem](err); ok && known.Status < http.StatusInternalServerError {
		err = cmp.Or(v.doubt.reason(), err)
	}
	p := *problemOf(err)
	if v.context().Err() != nil {
		// Whoever is still there to read this asks the process that comes next.
		p = problem{
			Status: http.StatusServiceUnavailable, Title: "No answer", Text: "Setpoint ended before the page was made.", Retries: true,
			Hint: "This page comes back by itself when it runs again.",
		}
	}
	if p.Retries && v.r.Method != http.MethodGet && v.r.Method != http.MethodHead {
		p.Retries, p.Back = false, v.page()
		p.Hint = "It is not known whether anything was changed. Go back, see whether it was, and send it again if not."
	}
	return &p
}

// problemOf finds the words for an error: the one place where errors become pages.
func problemOf(err error) *problem {
	if known, ok := errors.AsType[*problem](err); ok {
		return known
	}
	if several, ok := errors.AsType[*asuser.AmbiguousError](err); ok {
		return &problem{Status: http.StatusBadRequest, Title: "Several kinds", Text: title(several.Error()) + "."}
	}
	switch {
	case errors.Is(err, access.ErrUnread):
		return unread(err)
	case errors.Is(err, access.ErrHost), errors.Is(err, access.ErrForged), errors.Is(err, access.ErrSpeaker):
		return &problem{Status: http.StatusForbidden, Title: "Not like that", Text: title(err.Error()) + "."}
	case errors.Is(err, form.ErrTooMuch):
		return &problem{Status: http.StatusUnprocessableEntity, Title: "Too large", Text: title(err.Error()) + "."}
	case errors.Is(err, inspect.ErrNotFound), apierrors.IsNotFound(err), apierrors.IsGone(err):
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
		return forbidden(err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return &problem{Status: http.StatusUnprocessableEntity, Title: "The API server refuses that", Text: err.Error()}
	case unreachable(err):
		return &problem{
			Status: http.StatusServiceUnavailable, Title: "No answer", Text: title(err.Error()) + ".", Retries: true,
			Hint: "The API server, or the process, does not answer. This page comes back by itself when it does.",
		}
	default:
		return &problem{Status: http.StatusInternalServerError, Title: "Something went wrong", Text: err.Error()}
	}
}

// unread is the problem that a form did not arrive as a whole. Nothing was done then.
func unread(err error) *problem {
	if large, is := errors.AsType[*http.MaxBytesError](err); is {
		return &problem{
			Status: http.StatusRequestEntityTooLarge, Title: "Too much at once",
			Text: "What was sent has more than " + size(int(large.Limit)) + ", which is the most that the window takes. Nothing was changed.",
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
		Status: http.StatusBadRequest, Title: "That does not work", Text: title(err.Error()) + ". Nothing was changed.",
		Hint: "Load the page again, and send it anew.",
	}
}

// forbidden is the problem that somebody decided against it: most often that a right is
// missing, which can be named.
func forbidden(err error) *problem {
	right, missing := asuser.Missing(err)
	if !missing {
		text, _ := asuser.Explain(err)
		return &problem{
			Status: http.StatusForbidden, Title: "Not allowed", Text: text,
			Hint: "A policy of the cluster decided so: what it asks for is above.",
		}
	}
	return lacks(right)
}

// lacks is the problem that a visitor has no right to something.
func lacks(right asuser.Right) *problem {
	return &problem{
		Status: http.StatusForbidden, Title: "Forbidden",
		Text:     fmt.Sprintf("%s has no right to %s.", right.User, right),
		Hint:     "A cluster admin can grant it with:",
		Commands: right.Commands(),
	}
}
