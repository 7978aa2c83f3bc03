package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// How soon a watch that ended is begun again: at first, and at most.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 15 * time.Second
)

// Watch calls changed whenever an object of a kind changed, came or went, or may have
// while nobody could see, until ctx ends. Only metadata is sent. It returns early only
// with a refusal: of a user without the right, or of a kind that is not served.
func (c *Client) Watch(ctx context.Context, kind inspect.Kind, namespace string, changed func()) error {
	backoff := minBackoff
	for first := true; ; first = false {
		began := time.Now()
		err := c.watchOnce(ctx, kind, namespace, func(fresh bool) {
			if !fresh || !first {
				changed()
			}
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			return fmt.Errorf("watch %s: %w", words(kind, namespace, ""), err)
		case time.Since(began) > maxBackoff:
			backoff = minBackoff
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// watchOnce watches until the connection ends. It tells of each change, and before
// them, by fresh, that it has begun.
func (c *Client) watchOnce(ctx context.Context, kind inspect.Kind, namespace string, tell func(fresh bool)) error {
	path, err := pathOf(kind, namespace, "")
	if err != nil {
		return err
	}
	var list metav1.PartialObjectMetadataList
	if err := c.get(ctx, asList, c.rest.Get().AbsPath(path...).Param("limit", "1"), &list); err != nil {
		return err
	}
	tell(true)
	stream, err := c.rest.Get().AbsPath(path...).SetHeader("Accept", asMetadata).
		Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", list.ResourceVersion).Stream(ctx)
	if err != nil {
		return classify(ctx, err)
	}
	defer stream.Close()
	for events := json.NewDecoder(stream); ; {
		var event metav1.WatchEvent
		if err := events.Decode(&event); err != nil {
			return err
		}
		switch event.Type {
		case "BOOKMARK":
		case "ERROR":
			return fmt.Errorf("the API server ended the watch: %s", event.Object.Raw)
		default:
			tell(false)
		}
	}
}
