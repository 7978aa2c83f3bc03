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

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// The backoff of a failed watch.
const (
	minBackoff = 500 * time.Millisecond
	maxBackoff = 15 * time.Second
)

// Watch calls changed when an object of a kind, or the named one, may have changed. It calls it first when the watch
// starts, and runs until ctx ends. Only metadata is transferred. It returns early only if the first attempt is
// permanently rejected; an API server that has just started may reject later ones.
func (c *Client) Watch(ctx context.Context, kind object.Kind, namespace, name string, changed func()) error {
	path, err := pathOf(kind, namespace, "")
	if err != nil {
		return fmt.Errorf("watch %s: %w", describe(kind, namespace, name), err)
	}
	watch := func() *rest.Request {
		request := c.rest.Get().AbsPath(path...)
		if name != "" {
			request.Param("fieldSelector", fields.OneTermEqualSelector("metadata.name", name).String())
		}
		return request
	}
	backoff := minBackoff
	for attempt := 0; ; attempt++ {
		began := time.Now()
		err := c.watchOnce(ctx, watch, changed)
		// A retry cannot succeed.
		permanent := apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err) ||
			apierrors.IsMethodNotSupported(err) || errors.Is(err, failure.ErrNotFound)
		if ctx.Err() == nil && attempt == 0 && permanent {
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

// watchOnce watches until the connection ends. It notifies at the start, and on each change.
func (c *Client) watchOnce(ctx context.Context, watch func() *rest.Request, notify func()) error {
	var list metav1.PartialObjectMetadataList
	if err := c.get(ctx, mediaTypeList, watch().Param("limit", "1"), &list); err != nil {
		return err
	}
	notify()
	stream, err := watch().SetHeader("Accept", request.Metadata).
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
