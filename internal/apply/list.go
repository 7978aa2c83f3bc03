package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// pageSize is the limit of a list request.
const pageSize = 500

// List reads the objects of a kind that match a label selector, not from a cache. An empty
// namespace means all.
func (w *Writer) List(ctx context.Context, resource object.Resource, namespace, selector string) ([]*object.Object, error) {
	var all []*object.Object
	for next := ""; ; {
		request := w.client.Get().AbsPath(resource.Path(namespace, "")).
			Param("labelSelector", selector).Param("limit", strconv.Itoa(pageSize)).SetHeader("Accept", "application/json")
		if next != "" {
			request = request.Param("continue", next)
		}
		body, err := w.doRequest(ctx, resource, "list", request)
		if err != nil {
			return nil, err
		}
		var page page
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("read list: %w", err)
		}
		if all, err = page.appendTo(all, resource); err != nil {
			return nil, err
		}
		if next = page.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}

// page is a page of a list.
type page struct {
	Metadata struct{ Continue string }
	Items    []json.RawMessage
}

// appendTo parses the objects of a page, which have no apiVersion and kind.
func (p *page) appendTo(all []*object.Object, resource object.Resource) ([]*object.Object, error) {
	for _, item := range p.Items {
		o, err := object.ParseAs(item, resource.APIVersion(), resource.Kind)
		if err != nil {
			return nil, fmt.Errorf("read list: %w", err)
		}
		all = append(all, o)
	}
	return all, nil
}
