package asuser

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Tally is how many objects there are of a kind.
type Tally struct {
	inspect.Kind
	Count int64
	// More says that there are more than Count, but not how many.
	More bool
	// Err is why they are not counted.
	Err error
}

// Missing is the right for want of which they are not counted, in words; "" if it is
// something else.
func (t Tally) Missing() string {
	missing, is := Missing(t.Err)
	if !is {
		return ""
	}
	return missing.String()
}

// How long counting what is in a namespace may take in all, and how many are counted at
// a time.
const (
	contentsLimit = 8 * time.Second
	contentsAhead = 8
)

// Contents are the kinds of which there are objects in a namespace, and those that are
// not counted. Deleting the namespace takes them all.
func (c *Client) Contents(ctx context.Context, namespace string) ([]Tally, error) {
	all, err := c.cluster.kinds.list(ctx, kindsLimit)
	if len(all) == 0 {
		return nil, err
	}
	var tallies []Tally
	for _, kind := range contained(all) {
		tallies = append(tallies, Tally{Kind: kind})
	}
	ctx, cancel := context.WithTimeout(ctx, contentsLimit)
	defer cancel()
	group := errgroup.Group{}
	group.SetLimit(contentsAhead)
	for i := range tallies {
		group.Go(func() error {
			tallies[i] = c.Count(ctx, tallies[i].Kind, namespace)
			return nil
		})
	}
	_ = group.Wait() // None of them fails.
	return slices.DeleteFunc(tallies, func(t Tally) bool {
		return t.Count == 0 && (t.Err == nil || errors.Is(t.Err, inspect.ErrNotFound))
	}), nil
}

// contained are the kinds of objects that are kept in namespaces, each once. What is
// only computed, such as metrics, cannot be deleted; events are served by two names.
func contained(all []served) []inspect.Kind {
	var kinds []inspect.Kind
	for _, s := range all {
		is := func(k inspect.Kind) bool { return k.Group == s.Group && k.Plural == s.Plural }
		if s.Namespaced && !strings.Contains(s.Plural, "/") && slices.Contains(s.verbs, "list") && slices.Contains(s.verbs, "delete") &&
			s.Group != "events.k8s.io" && !slices.ContainsFunc(kinds, is) {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}

// Count is how many objects there are of a kind, in a namespace or in all. One is asked
// for: the API server says how many others there are.
func (c *Client) Count(ctx context.Context, kind inspect.Kind, namespace string) Tally {
	t := Tally{Kind: kind}
	path, err := pathOf(kind, namespace, "")
	if err != nil {
		t.Err = err
		return t
	}
	var list metav1.PartialObjectMetadataList
	if err := c.get(ctx, asList, c.rest.Get().AbsPath(path...).Param("limit", "1"), &list); err != nil {
		t.Err = fmt.Errorf("count %s: %w", words(kind, namespace, ""), err)
		return t
	}
	t.Count = int64(len(list.Items))
	switch {
	case list.RemainingItemCount != nil:
		t.Count += *list.RemainingItemCount
	case list.Continue != "":
		t.More = true
	}
	return t
}
