// Package objects has the pages of one object: what controllers did about it and why, what it owns, plans, and actions.
//
// Which runs explain what is decided in package timeline. To create, edit and delete objects belongs in package edit.
package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"

	"github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Pages are the pages of objects.
type Pages struct {
	plans web.Limiter
	// changes has the object changes of runs as a user may see them.
	changes *cache.LRUExpireCache
}

// Plans call hooks and list objects, so few run at a time: maxPlans of one user and maxTotalPlans of all.
const (
	maxPlans      = 2
	maxTotalPlans = 8
)

const maxCachedChanges = 500

// New returns the pages of objects.
func New() *Pages {
	p := &Pages{changes: cache.NewLRUExpireCache(maxCachedChanges)}
	p.plans.PerUser, p.plans.Total = maxPlans, maxTotalPlans
	return p
}

// Request is a request to a page of an object.
type Request struct {
	*web.Request
	pages *Pages
}

// Of returns a request to a page of an object.
func (p *Pages) Of(req *web.Request) *Request { return &Request{req, p} }

type runKey struct {
	process string
	id      uint64
}

// Loader loads full runs, each once.
type Loader struct {
	*Request
	runs map[runKey]inspect.Run
	// tokens stand for the values of Secrets, instead of the mask.
	tokens bool
}

// NewLoader returns a loader that has loaded nothing yet.
func (req *Request) NewLoader() *Loader {
	return &Loader{Request: req, runs: map[runKey]inspect.Run{}}
}

// Load returns a run without what the user may not read.
func (l *Loader) Load(process string, id uint64) (inspect.Run, error) {
	key := runKey{process, id}
	if known, ok := l.runs[key]; ok {
		return known, nil
	}
	source, err := l.Source(process)
	if err != nil {
		return inspect.Run{}, err
	}
	run, err := inspect.QueryOne(l.Context(), l.Processes.Timeouts, source,
		func(ctx context.Context, s inspect.Source) (inspect.Run, error) {
			return s.Run(ctx, id, l.tokens)
		})
	if err != nil {
		return inspect.Run{}, err
	}
	l.runs[key] = inspect.Redact(run, l.CanRead)
	return l.runs[key], nil
}

// previousCall returns the previous comparable call, in the same run or in an earlier one; nil
// if it is no longer in memory.
func (l *Loader) previousCall(run *inspect.Run, step int) (call *inspect.Call, began time.Time, err error) {
	as := run.Steps[step].Call
	if call := inspect.LastComparable(run.Steps[:step], as); call != nil {
		return call, run.Began, nil
	}
	earlier, err := l.Load(run.Process, as.Previous)
	if err != nil {
		return nil, time.Time{}, err
	}
	return inspect.LastComparable(earlier.Steps, as), earlier.Began, nil
}

// findRun returns a run by the text of its ID. It must belong to the object of the page, which the user may read.
func (req *Request) findRun(loader *Loader, s *Object, text string) (inspect.Run, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return inspect.Run{}, web.NotFound("There is no run %q.", text)
	}
	var unavailable error
	for _, source := range req.Processes.Running(req.Context()) {
		if wanted := req.Query("in"); wanted != "" && wanted != source.Name() {
			continue
		}
		run, err := loader.Load(source.Name(), id)
		if err == nil && run.Object.Identity() == s.Identity() {
			return run, nil
		}
		if err != nil && !errors.Is(err, failure.ErrNotFound) {
			unavailable = err
		}
	}
	if unavailable != nil {
		return inspect.Run{}, unavailable
	}
	return inspect.Run{}, web.NotFound("Run %d of %s %s is no longer in memory.", id, s.Kind.Kind, s.Name)
}

// Object is the object of a page as the user may see it.
type Object struct {
	object.Ref
	// Deleted reports that the object no longer exists. Only its history is known.
	Deleted bool
	Meta    metav1.ObjectMeta
	// Conditions are its status conditions.
	Conditions []metav1.Condition
	// Raw is its JSON; nil if it is deleted.
	Raw json.RawMessage
}

// URL returns the URL of its page, or of a page below it.
func (s *Object) URL(below ...string) string { return web.ObjectURL(s.Ref, below...) }

// loadObject loads the object of the URL. A deleted object shows its history to users who could get it.
func (req *Request) loadObject() (*Object, error) {
	ref, err := req.RefFromURL()
	if err != nil {
		return nil, err
	}
	s := &Object{Ref: ref}
	raw, err := req.API.Get(req.Context(), s.Kind, s.Namespace, s.Name)
	switch {
	case errors.Is(err, failure.ErrNotFound) && req.Can("get", s.Kind, s.Namespace, s.Name):
		s.Deleted = true
		return s, nil
	case req.AccessError() != nil:
		return nil, req.AccessError()
	case err != nil:
		return nil, err
	}
	if err := s.Parse(raw); err != nil {
		return nil, err
	}
	return s, nil
}

// Parse reads the metadata and conditions of an object.
func (s *Object) Parse(raw json.RawMessage) error {
	var o struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return fmt.Errorf("decode %s %s: %w", s.Kind.Kind, s.Name, err)
	}
	s.Raw, s.Meta, s.UID = raw, o.Metadata, string(o.Metadata.UID)
	var status struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	// The conditions of a custom resource may have another schema.
	if json.Unmarshal(raw, &status) == nil {
		s.Conditions = status.Status.Conditions
	}
	return nil
}

// Paused reports whether the object has the paused annotation.
func (s *Object) Paused() bool { return s.Meta.Annotations[v1alpha1.AnnotationPaused] == "true" }
