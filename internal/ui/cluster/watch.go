package cluster

import (
	"context"
	"encoding/json"
	"errors"
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
// if it is refused at once: to a user without the right, or of a kind that is not
// served. Later refusals may be those of an API server that has just started.
func (c *Client) Watch(ctx context.Context, kind inspect.Kind, namespace string, changed func()) error {
	backoff, begun := minBackoff, false
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := c.watchOnce(ctx, kind, namespace, func(fresh bool) {
			if begun || !fresh {
				changed()
			}
			begun = true
		})
		if ctx.Err() == nil && attempt == 0 && final(err) {
			return fmt.Errorf("watch %s: %w", words(kind, namespace, ""), err)
		}
		if time.Since(began) > maxBackoff {
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

// final reports whether an error is not overcome by trying again.
func final(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) ||
		apierrors.IsMethodNotSupported(err) || errors.Is(err, inspect.ErrNotFound)
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
