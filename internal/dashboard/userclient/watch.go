package userclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// How soon a watch that ended is begun again: at first, and at most.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 15 * time.Second
)

// Watch calls changed whenever an object of a kind changed, came or went, or may have
// while nobody could see, which it begins with, until ctx ends: any of them, or the one of a name. Only
// metadata is sent. It returns early only if it is refused at once: to a user without
// the right, or of a kind that is not served. Later refusals may be those of an API
// server that has just started.
func (c *Client) Watch(ctx context.Context, kind model.Kind, namespace, name string, changed func()) error {
	watch, err := c.watchRequest(kind, namespace, name)
	if err != nil {
		return fmt.Errorf("watch %s: %w", describe(kind, namespace, name), err)
	}
	backoff := minBackoff
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := c.watchOnce(ctx, watch, changed)
		if ctx.Err() == nil && attempt == 0 && isPermanent(err) {
			return fmt.Errorf("watch %s: %w", describe(kind, namespace, name), err)
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

// watchRequest makes requests about what is watched.
func (c *Client) watchRequest(kind model.Kind, namespace, name string) (func() *rest.Request, error) {
	path, err := pathOf(kind, namespace, "")
	if err != nil {
		return nil, err
	}
	return func() *rest.Request {
		request := c.rest.Get().AbsPath(path...)
		if name != "" {
			request.Param("fieldSelector", fields.OneTermEqualSelector("metadata.name", name).String())
		}
		return request
	}, nil
}

// isPermanent reports whether an error is not overcome by trying again.
func isPermanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) ||
		apierrors.IsMethodNotSupported(err) || errors.Is(err, model.ErrNotFound)
}

// watchOnce watches until the connection ends. It tells of each change, and before them
// of what may have changed until it began.
func (c *Client) watchOnce(ctx context.Context, watch func() *rest.Request, notify func()) error {
	var list metav1.PartialObjectMetadataList
	if err := c.get(ctx, mediaTypeList, watch().Param("limit", "1"), &list); err != nil {
		return err
	}
	notify()
	stream, err := watch().SetHeader("Accept", mediaTypeMetadata).
		Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", list.ResourceVersion).Stream(ctx)
	if err != nil {
		return classifyError(ctx, err)
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
			notify()
		}
	}
}
