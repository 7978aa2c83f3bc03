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

const fieldManager = "setpoint-dashboard"

// WriteOptions configure a creation or a patch.
type WriteOptions struct {
	// DryRun stores nothing. The API server defaults, validates and calls admission webhooks all the same.
	DryRun bool
}

// Create creates an object from JSON and returns the stored object.
func (c *Client) Create(ctx context.Context, kind object.Kind, namespace string, body []byte, o WriteOptions) (json.RawMessage, error) {
	request := c.rest.Post().SetHeader("Content-Type", mediaTypeJSON).Body(body)
	return c.write(ctx, "create", object.Ref{Kind: kind, Namespace: namespace}, request, o)
}

// Patch patches an object and returns the stored object.
func (c *Client) Patch(ctx context.Context, at object.Ref, kind types.PatchType, body []byte, o WriteOptions) (json.RawMessage, error) {
	return c.write(ctx, "patch", at, c.rest.Patch(kind).Body(body), o)
}

// write makes a write with strict field validation.
func (c *Client) write(ctx context.Context, verb string, at object.Ref, request *rest.Request, o WriteOptions) (json.RawMessage, error) {
	request.Param("fieldManager", fieldManager).Param("fieldValidation", metav1.FieldValidationStrict)
	if o.DryRun {
		request.Param("dryRun", metav1.DryRunAll)
	}
	return c.doWrite(ctx, verb, at, request, o)
}

// doWrite makes a write and calls OnWrite.
func (c *Client) doWrite(ctx context.Context, verb string, at object.Ref, request *rest.Request, o WriteOptions) (json.RawMessage, error) {
	path, err := pathOf(at.Kind, at.Namespace, at.Name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	began := time.Now()
	data, err := c.do(ctx, request.AbsPath(path...).SetHeader("Accept", mediaTypeJSON))
	if c.cluster.OnWrite != nil && !o.DryRun {
		written, o := at, metav1.PartialObjectMetadata{}
		if at.Name == "" && json.Unmarshal(data, &o) == nil { // It has a generated name.
			written.Name, written.UID = o.Name, string(o.UID)
		}
		c.cluster.OnWrite(c.user.Name, verb, written, err, time.Since(began))
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", verb, describe(at.Kind, at.Namespace, at.Name), err)
	}
	return data, nil
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
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
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
	request := c.rest.Delete().SetHeader("Content-Type", mediaTypeJSON).Body(body)
	_, err = c.doWrite(ctx, "delete", object.Ref{Kind: kind, Namespace: namespace, Name: name}, request, WriteOptions{})
	return err
}
