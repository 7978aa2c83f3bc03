package apptest

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Await waits until an object is there, and so that check returns nil; nil in place
// of check waits until it is there. If that takes too long, or the app ends, the
// test fails with what check has said last and the object as it was then.
func Await[T any](c *Cluster, name string, check func(*T) error) *T {
	c.t.Helper()
	var now *T
	var stored *unstructured.Unstructured
	err := c.poll(func() (final bool, err error) {
		now, stored, err = get[T](c, name)
		if err != nil {
			return !isRetryable(err), err
		}
		if check != nil {
			err = check(now)
		}
		return err == nil, err
	})
	if err != nil {
		c.t.Fatalf("%v\n%s", err, lastObserved[T](c, stored))
	}
	return now
}

// lastObserved says how an object was, or what else there is of its kind.
func lastObserved[T any](c *Cluster, stored *unstructured.Unstructured) string {
	if stored != nil {
		return "It was last seen as\n" + show(stored)
	}
	ref, err := named[T](c, "")
	if err != nil {
		return ""
	}
	return c.describeKind(ref)
}

// describeKind describes the objects of a kind.
func (c *Cluster) describeKind(ref reference) string {
	ctx, cancel := c.Within(time.Second).context()
	defer cancel()
	found, err := c.objects(ref).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var names []string
	for i := range found.Items {
		names = append(names, found.Items[i].GetName())
	}
	where := " in namespace " + ref.namespace
	if ref.namespace == "" {
		where = ""
	}
	if len(names) == 0 {
		return "There are no " + ref.Resource + where + "."
	}
	return "The " + ref.Resource + where + " are " + strings.Join(names, ", ") + "."
}

// isRetryable reports whether a later attempt may succeed: an object does not exist yet,
// or the API server is unavailable.
func isRetryable(err error) bool {
	if _, unreached := errors.AsType[*url.Error](err); unreached || errors.Is(err, errNotServed) {
		return true
	}
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonNotFound, metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout,
		metav1.StatusReasonTooManyRequests, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonInternalError:
		return true
	}
	return false
}

// AwaitList waits until the objects that List gives are so that check returns nil.
func AwaitList[T any](c *Cluster, selector string, check func([]T) error) []T {
	c.t.Helper()
	var now []T
	err := c.poll(func() (final bool, err error) {
		if now, err = list[T](c, selector); err != nil {
			return !isRetryable(err), err
		}
		err = check(now)
		return err == nil, err
	})
	if err != nil {
		c.t.Fatalf("%v\n%s", err, lastListed(now))
	}
	return now
}

// lastListed says what a list was when it was seen last.
func lastListed[T any](all []T) string {
	if len(all) == 0 {
		return "The list was empty when it was last seen."
	}
	var text strings.Builder
	text.WriteString("It was last seen as\n")
	for i := range all {
		o, err := generic(&all[i])
		if err != nil {
			return err.Error()
		}
		text.WriteString(show(o) + "    ---\n")
	}
	return text.String()
}

// AwaitGone waits until there is no object of a name. One that goes because its
// owner did is collected by Kubernetes, which looks for new kinds of owners every
// half a minute: give it Within(time.Minute).
func AwaitGone[T any](c *Cluster, name string) {
	c.t.Helper()
	var stored *unstructured.Unstructured
	err := c.poll(func() (final bool, err error) {
		_, stored, err = get[T](c, name)
		switch {
		case err == nil:
			return false, fmt.Errorf("%s %s is still there", stored.GetKind(), stored.GetName())
		case apierrors.IsNotFound(err):
			return true, nil
		}
		return !isRetryable(err), err
	})
	if err != nil {
		c.t.Fatalf("%v\n%s", err, lastObserved[T](c, stored))
	}
}

// Eventually waits until check returns nil. It is for conditions outside the cluster, such
// as requests to a server of the test.
func (c *Cluster) Eventually(check func() error) {
	c.t.Helper()
	err := c.poll(func() (bool, error) { err := check(); return err == nil, err })
	if err != nil {
		c.t.Fatal(err)
	}
}
