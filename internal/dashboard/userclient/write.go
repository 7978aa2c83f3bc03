package userclient

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// fieldManager is the field manager of the dashboard.
const fieldManager = "setpoint-dashboard"

// WriteOptions configure a creation or a patch.
type WriteOptions struct {
	// DryRun stores nothing. The API server defaults, validates and calls admission webhooks all the same.
	DryRun bool
}

// Create creates an object from JSON and returns the stored object.
func (c *Client) Create(ctx context.Context, kind object.Kind, namespace string, body []byte, o WriteOptions) (json.RawMessage, error) {
	return c.write(ctx, write{
		verb: "create", kind: kind, namespace: namespace, WriteOptions: o,
		request: c.rest.Post().SetHeader("Content-Type", mediaTypeJSON).Body(body),
	})
}

// Patch patches an object and returns the stored object.
func (c *Client) Patch(ctx context.Context, at object.Ref, kind types.PatchType, body []byte, o WriteOptions) (json.RawMessage, error) {
	return c.write(ctx, write{
		verb: "patch", kind: at.Kind, namespace: at.Namespace, name: at.Name, WriteOptions: o,
		request: c.rest.Patch(kind).Body(body),
	})
}

// write is a write request.
type write struct {
	WriteOptions

	verb      string
	kind      object.Kind
	namespace string
	name      string
	request   *rest.Request
}

func (w *write) ref() object.Ref {
	return object.Ref{Kind: w.kind, Namespace: w.namespace, Name: w.name}
}

// write makes a write with strict field validation.
func (c *Client) write(ctx context.Context, w write) (json.RawMessage, error) {
	w.request.Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationStrict)
	if w.DryRun {
		w.request.Param("dryRun", metav1.DryRunAll)
	}
	return c.doWrite(ctx, w)
}

// doWrite makes a write and calls OnWrite.
func (c *Client) doWrite(ctx context.Context, w write) (json.RawMessage, error) {
	path, err := pathOf(w.kind, w.namespace, w.name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	began := time.Now()
	data, err := c.do(ctx, w.request.AbsPath(path...).SetHeader("Accept", mediaTypeJSON))
	if c.cluster.OnWrite != nil && !w.DryRun {
		c.cluster.OnWrite(c.user.Name, w.verb, withGeneratedName(w.ref(), data), err, time.Since(began))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", w.verb, describe(w.kind, w.namespace, w.name), err)
	}
	return data, nil
}

// withGeneratedName adds a generated name to a reference.
func withGeneratedName(ref object.Ref, stored []byte) object.Ref {
	if ref.Name != "" {
		return ref
	}
	var o metav1.PartialObjectMetadata
	if json.Unmarshal(stored, &o) == nil {
		ref.Name, ref.UID = o.Name, string(o.UID)
	}
	return ref
}

// DeleteOptions configure a deletion.
type DeleteOptions struct {
	// UID, if set, must match the object.
	UID string
	// Propagation is "Background", "Foreground" or "Orphan"; the default of the kind if empty.
	Propagation metav1.DeletionPropagation
}

// Delete deletes an object.
func (c *Client) Delete(ctx context.Context, kind object.Kind, namespace, name string, o DeleteOptions) error {
	options := metav1.DeleteOptions{}
	options.APIVersion, options.Kind = "v1", "DeleteOptions"
	if o.UID != "" {
		options.Preconditions = metav1.NewUIDPreconditions(o.UID)
	}
	if o.Propagation != "" {
		options.PropagationPolicy = &o.Propagation
	}
	body, err := json.Marshal(options)
	if err != nil {
		return fmt.Errorf("encode delete options: %w", err)
	}
	_, err = c.doWrite(ctx, write{
		verb: "delete", kind: kind, namespace: namespace, name: name,
		request: c.rest.Delete().SetHeader("Content-Type", mediaTypeJSON).Body(body),
	})
	return err
}
