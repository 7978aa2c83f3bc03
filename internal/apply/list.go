package apply

import (
	"bytes"
	"context"
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
		metadata, err := object.ReadList(bytes.NewReader(body), func(data []byte) error {
			o, err := object.ParseAs(data, resource.APIVersion(), resource.Kind)
			all = append(all, o)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read list: %w", err)
		}
		if next = metadata.Continue; next == "" {
			return all, nil
		}
	}
}
