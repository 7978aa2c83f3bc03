package userclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// KindCount is how many objects there are of a kind.
type KindCount struct {
	model.Kind
	Count int64
	// More says that there are more than Count, but not how many.
	More bool
	// Err is why they are not counted.
	Err error
}

// MissingPermission is the right for want of which they are not counted, in words; "" if it is
// something else.
func (t KindCount) MissingPermission() string {
	missing, is := MissingPermission(t.Err)
	if !is {
		return ""
	}
	return missing.String()
}

// How long counting what is in a namespace may take in all, and how many are counted at
// a time.
const (
	contentsTimeout     = 8 * time.Second
	contentsParallelism = 8
)

// Contents are the kinds of which there are objects in a namespace, and those that are
// not counted. Deleting the namespace takes them all.
func (c *Client) Contents(ctx context.Context, namespace string) ([]KindCount, error) {
	all, err := c.cluster.kinds.list(ctx, kindsMaxAge)
	if len(all) == 0 {
		return nil, err
	}
	var counts []KindCount
	for _, kind := range namespacedKinds(all) {
		counts = append(counts, KindCount{Kind: kind})
	}
	ctx, cancel := context.WithTimeout(ctx, contentsTimeout)
	defer cancel()
	group := errgroup.Group{}
	group.SetLimit(contentsParallelism)
	for i := range counts {
		group.Go(func() error {
			counts[i] = c.Count(ctx, counts[i].Kind, namespace)
			return nil
		})
	}
	_ = group.Wait() // None of them fails.
	return slices.DeleteFunc(counts, func(t KindCount) bool {
		return t.Count == 0 && (t.Err == nil || errors.Is(t.Err, model.ErrNotFound))
	}), nil
}

// namespacedKinds are the kinds of objects that are kept in namespaces, each once. What is
// only computed, such as metrics, cannot be deleted; events are served by two names.
func namespacedKinds(all []servedKind) []model.Kind {
	var kinds []model.Kind
	for _, s := range all {
		is := func(k model.Kind) bool { return k.Group == s.Group && k.Plural == s.Plural }
		if s.Namespaced && !strings.Contains(s.Plural, "/") && slices.Contains(s.verbs, "list") && slices.Contains(s.verbs, "delete") &&
			s.Group != "events.k8s.io" && !slices.ContainsFunc(kinds, is) {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}

// Count is how many objects there are of a kind, in a namespace or in all. One is asked
// for: the API server says how many others there are.
func (c *Client) Count(ctx context.Context, kind model.Kind, namespace string) KindCount {
	t := KindCount{Kind: kind}
	path, err := pathOf(kind, namespace, "")
	if err != nil {
		t.Err = err
		return t
	}
	var list metav1.PartialObjectMetadataList
	if err := c.get(ctx, mediaTypeList, c.rest.Get().AbsPath(path...).Param("limit", "1"), &list); err != nil {
		t.Err = fmt.Errorf("count %s: %w", describe(kind, namespace, ""), err)
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
