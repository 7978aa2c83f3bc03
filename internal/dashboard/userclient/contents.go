package userclient

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// KindCount is the number of objects of a kind.
type KindCount struct {
	object.Kind
	Count int64
	// More reports that there are more than Count.
	More bool
	// Err is why they could not be counted.
	Err error
}

// MissingPermission says which permission is needed to count them; "" if that is not the problem.
func (t KindCount) MissingPermission() string {
	missing, is := MissingPermission(t.Err)
	if !is {
		return ""
	}
	return missing.Missing()
}

const contentsTimeout = 8 * time.Second

// Contents counts the objects in a namespace by kind. It returns kinds with objects and kinds
// that could not be counted.
func (c *Client) Contents(ctx context.Context, namespace string) ([]KindCount, error) {
	all, err := c.cluster.kinds.list(ctx, kindsMaxAge)
	if len(all) == 0 {
		return nil, err
	}
	counts := lists.Map(namespacedKinds(all), func(kind object.Kind) KindCount { return KindCount{Kind: kind} })
	ctx, cancel := context.WithTimeout(ctx, contentsTimeout)
	defer cancel()
	InParallel(len(counts), func(i int) { counts[i] = c.Count(ctx, counts[i].Kind, namespace) })
	return slices.DeleteFunc(counts, func(t KindCount) bool {
		return t.Count == 0 && (t.Err == nil || errors.Is(t.Err, failure.ErrNotFound))
	}), nil
}

// namespacedKinds returns the kinds of stored objects in namespaces. It skips computed kinds
// such as metrics, and the second API of events.
func namespacedKinds(all []served.Kind) []object.Kind {
	var kinds []object.Kind
	for _, s := range all {
		is := func(k object.Kind) bool { return k.Group == s.Group && k.Plural == s.Plural }
		if s.Namespaced && !strings.Contains(s.Plural, "/") && slices.Contains(s.Verbs, "list") && slices.Contains(s.Verbs, "delete") &&
			s.Group != "events.k8s.io" && !slices.ContainsFunc(kinds, is) {
			kinds = append(kinds, s.Kind)
		}
	}
	return kinds
}

// Count counts the objects of a kind in a namespace, or in all. It lists one object and reads the remaining count.
func (c *Client) Count(ctx context.Context, kind object.Kind, namespace string) KindCount {
	t := KindCount{Kind: kind}
	var list metav1.PartialObjectMetadataList
	t.Err = c.list(ctx, mediaTypeList, object.Ref{Kind: kind, Namespace: namespace}, metav1.ListOptions{Limit: 1}, &list)
	t.Count = int64(len(list.Items))
	switch {
	case list.RemainingItemCount != nil:
		t.Count += *list.RemainingItemCount
	case list.Continue != "":
		t.More = true
	}
	return t
}
