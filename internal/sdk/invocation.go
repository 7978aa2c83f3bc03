package sdk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// Invocation is one call of a function for an object, and what the function reports and requests.
type Invocation struct {
	Metadata Metadata
	Output   Output

	controller *Controller
	// functionName is the name of the function.
	functionName string
	// nameCounts counts the generated names of a kind and prefix.
	nameCounts map[string]int
	problems   []error
}

// Output is what a function reports for an object, and requests to write.
type Output struct {
	Events       []hook.Event
	Conditions   []hook.Condition
	Message      string
	RequeueAfter time.Duration
	Apply        []hook.AppliedObject
	Delete       []hook.Deletion
}

// Metadata is the metadata that the SDK reads, independent of the Go type.
type Metadata struct {
	Namespace, Name, UID string
	Labels               map[string]string
}

// NewInvocation returns a call of a function, whose object is set by ReadMetadata or by its Metadata.
func NewInvocation(c *Controller, function string) Invocation {
	return Invocation{controller: c, functionName: function, nameCounts: map[string]int{}}
}

// ReadMetadata sets the metadata of an object, which was decoded from data.
func (c *Invocation) ReadMetadata(o any, data json.RawMessage) error {
	if typed, is := o.(metav1.Object); is {
		c.Metadata = metadataOf(typed)
		return nil
	}
	var err error
	if c.Metadata, err = readMetadata(data); err != nil {
		return Permanentf("read the object's metadata: %w", err)
	}
	return nil
}

func metadataOf(o metav1.Object) Metadata {
	// The labels are the handler's to change.
	return Metadata{o.GetNamespace(), o.GetName(), string(o.GetUID()), maps.Clone(o.GetLabels())}
}

func readMetadata(data []byte) (Metadata, error) {
	var read struct{ Metadata Metadata }
	err := json.Unmarshal(data, &read)
	return read.Metadata, err
}

// Identify returns the metadata of an object.
func Identify(o any) (Metadata, error) {
	if typed, ok := o.(metav1.Object); ok && !reflect.ValueOf(o).IsZero() {
		return metadataOf(typed), nil
	}
	data, err := json.Marshal(o)
	if err != nil {
		return Metadata{}, err
	}
	return readMetadata(data)
}

// Invoke runs the function when the indexes are filled.
func (c *Invocation) Invoke(ctx context.Context, role, name string, do func() error) error {
	app := c.controller.app
	if err := app.waitForIndexes(ctx); err != nil {
		return err
	}
	call.OutputOf(ctx).Ran(app.code)
	defer app.calls.track(&inFlightCall{role, name, c.ref})()
	return do()
}

// ref names the object in logs.
func (c *Invocation) ref() string {
	return object.Ref{Kind: object.Kind{Kind: c.controller.Kind.Name}, Namespace: c.Metadata.Namespace, Name: c.Metadata.Name}.String()
}

// ObjectLogger returns a logger that adds the names of the controller and the object.
func (c *Invocation) ObjectLogger() *slog.Logger {
	return c.controller.app.logger().With("controller", c.controller.name(), "object", c.ref())
}

// Memory returns the value of a type that functions keep for the object, and makes it if there is none.
func (c *Invocation) Memory(typed reflect.Type, fresh func() any) any {
	return c.controller.memories.get(c.Metadata.UID, typed, fresh)
}

// AddEvent reports an event of type Normal or Warning.
func (c *Invocation) AddEvent(eventType, reason, message string) {
	c.Output.Events = append(c.Output.Events, hook.Event{Type: eventType, Reason: reason, Message: message})
}

// AddCondition reports a condition.
func (c *Invocation) AddCondition(condition metav1.Condition) {
	c.Output.Conditions = append(c.Output.Conditions, hook.Condition{
		Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
	})
}

// Fail adds a problem, which fails the call.
func (c *Invocation) Fail(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

// AddProblem adds an error, unless it is nil, which fails the call.
func (c *Invocation) AddProblem(err error) {
	if err != nil {
		c.problems = append(c.problems, err)
	}
}

// Problems returns all problems as one permanent error.
func (c *Invocation) Problems() error {
	if len(c.problems) == 0 {
		return nil
	}
	return &hook.TerminalError{Err: errors.Join(c.problems...)}
}

// ApplyOptions are the options of Call.Apply of package setpoint.
type ApplyOptions struct{ Unowned, CopyLabels bool }

// ApplyObject requests to apply an object of a kind in Owns or Applies.
func (c *Invocation) ApplyObject(o any, opts ApplyOptions) {
	if data := c.marshal("Apply", o, c.controller.applies, opts); data != nil {
		c.Output.Apply = append(c.Output.Apply, hook.AppliedObject{Object: data, Unowned: opts.Unowned})
	}
}

// Child returns a desired child of a kind in Owns, or nil after a problem.
func (c *Invocation) Child(o any) json.RawMessage {
	return c.marshal("ComposeContext.Apply", o, nil, ApplyOptions{})
}

// marshal returns an object to write, or nil after a problem.
func (c *Invocation) marshal(verb string, o any, list []kinds.Kind, opts ApplyOptions) json.RawMessage {
	k, err := c.checkDeclared(o, verb, list)
	if err != nil {
		c.Fail("%w", err)
		return nil
	}
	data, err := json.Marshal(o)
	if err == nil {
		data, err = c.complete(data, k, opts)
	}
	if err != nil {
		c.Fail("%s: write the %s as JSON: %w", verb, k.Name, err)
		return nil
	}
	return data
}

// complete adds what the Go value may omit, and removes fields that Go types write
// although they are unset.
func (c *Invocation) complete(data []byte, k kinds.Kind, opts ApplyOptions) ([]byte, error) {
	all, err := object.DecodeExact(data)
	if err != nil {
		return nil, err
	}
	metadata, is := all["metadata"].(map[string]any)
	if !is {
		metadata = map[string]any{}
	}
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return slices.Contains(serverFields, name) })
	if name, _ := metadata["name"].(string); name == "" {
		prefix, _ := metadata["generateName"].(string)
		metadata["name"] = c.generateName(prefix, k)
		delete(metadata, "generateName")
	}
	if opts.CopyLabels && len(c.Metadata.Labels) > 0 {
		copyLabels(metadata, c.Metadata.Labels)
	}
	delete(all, "status")
	dropNullTimestamps(all)
	all["apiVersion"], all["kind"], all["metadata"] = k.APIVersion, k.Name, metadata
	return json.Marshal(all)
}

// serverFields are metadata that only the API server sets.
var serverFields = []string{"creationTimestamp", "managedFields", "resourceVersion", "uid", "generation"}

// copyLabels adds labels that an object does not have.
func copyLabels(metadata map[string]any, labels map[string]string) {
	own, is := metadata["labels"].(map[string]any)
	if !is {
		own = map[string]any{}
	}
	for name, value := range labels {
		if _, has := own[name]; !has {
			own[name] = value
		}
	}
	metadata["labels"] = own
}

// dropNullTimestamps removes metadata.creationTimestamp: null from templates. Go types of
// other releases write it although it is unset.
func dropNullTimestamps(value any) {
	switch value := value.(type) {
	case map[string]any:
		if at, there := value["creationTimestamp"]; there && at == nil {
			delete(value, "creationTimestamp")
		}
		for _, inner := range value {
			dropNullTimestamps(inner)
		}
	case []any:
		for _, inner := range value {
			dropNullTimestamps(inner)
		}
	}
}

// generateName returns a name that depends on the object, the handler and the number of
// such names in the call.
func (c *Invocation) generateName(prefix string, k kinds.Kind) string {
	if prefix == "" {
		return c.Metadata.Name
	}
	of := k.String() + " " + prefix
	c.nameCounts[of]++
	sum := sha256.Sum256([]byte(c.Metadata.UID + " " + c.ref() + " " + c.functionName + " " + of + " " + strconv.Itoa(c.nameCounts[of])))
	return prefix + hex.EncodeToString(sum[:5])
}

// checkDeclared returns the kind of an object, which must be declared.
func (c *Invocation) checkDeclared(o any, verb string, list []kinds.Kind) (kinds.Kind, error) {
	k, err := c.controller.app.KindOf(o)
	if err != nil {
		return kinds.Kind{}, fmt.Errorf("%s: %w", verb, err)
	}
	if kinds.Contains(c.controller.owns, k) || kinds.Contains(list, k) {
		return k, nil
	}
	declare := map[string]string{"Apply": "Owns or Applies", "ComposeContext.Apply": "Owns"}[verb]
	return kinds.Kind{}, fmt.Errorf("%s: declare %s with %s", verb, k, cmp.Or(declare, "Owns or Deletes"))
}

// ReadGroups fills a slice with the objects of its kind. A problem fails the call.
func (c *Invocation) ReadGroups(verb string, groups []hook.Group, into any) {
	if err := c.controller.readGroups(groups, into, verb != "Related"); err != nil {
		c.Fail("%s: %w", verb, err)
	}
}

// List fills a slice with the stored objects of its kind that match a selector, in the namespace of the request.
func (c *Invocation) List(ctx context.Context, n *hook.HandlerRequest, into any, selector string) error {
	if _, err := labels.Parse(selector); err != nil {
		return Permanentf("List: %w", err)
	}
	slice, err := sliceIn(into)
	if err != nil {
		return Permanentf("List: %w", err)
	}
	k, err := c.controller.app.kinds().OfType(slice.Type().Elem())
	switch {
	case err != nil:
		return Permanentf("List: %w", err)
	case !kinds.Contains(c.controller.reads, k):
		return Permanentf("List: declare %s with Reads", k)
	case n.Reader == nil:
		return Permanentf("List: the request has no reader")
	}
	group, err := n.Reader.List(ctx, k.APIVersion, k.Name, n.Namespace, selector)
	if err != nil {
		return fmt.Errorf("List: %w", err)
	}
	return fill(slice, group)
}

// DeleteObject requests to delete or evict an object by its kind and name.
func (c *Invocation) DeleteObject(verb string, o any, d hook.Deletion) {
	named, err := Identify(o)
	if err == nil && named.Name == "" {
		err = errors.New("the object has no name")
	}
	if err != nil {
		c.Fail("%s: %w", verb, err)
		return
	}
	d.Name = named.Name
	c.addDeletion(verb, o, d)
}

// DeleteSelected requests to delete or evict the objects of a kind that match the selector of the deletion.
func (c *Invocation) DeleteSelected(verb string, obj any, d hook.Deletion) {
	selector, err := labels.Parse(d.Selector)
	if err == nil && selector.Empty() {
		err = errors.New("the selector is empty and would select all objects")
	}
	if err != nil {
		c.Fail("%s(%q): %w", verb, d.Selector, err)
		return
	}
	c.addDeletion(verb, obj, d)
}

func (c *Invocation) addDeletion(verb string, o any, d hook.Deletion) {
	k, err := pods(), error(nil)
	switch {
	case !d.Evict:
		k, err = c.checkDeclared(o, verb, c.controller.deletes)
	case !c.controller.evicts:
		err = fmt.Errorf("%s: declare it with Evicts", verb)
	}
	if err != nil {
		c.Fail("%w", err)
		return
	}
	d.APIVersion, d.Kind = k.APIVersion, k.Name
	if named, err := Identify(o); err == nil {
		d.Namespace = named.Namespace
	}
	c.Output.Delete = append(c.Output.Delete, d)
}

// KindOf returns the kind of an object.
func (c *Invocation) KindOf(o any) (kinds.Kind, error) { return c.controller.app.KindOf(o) }

// Decode decodes JSON as a T. A retry would not help.
func Decode[T any](data json.RawMessage) (*T, error) {
	into := new(T)
	if err := json.Unmarshal(data, into); err != nil {
		return nil, Permanentf("read the object as %T: %w", into, err)
	}
	return into, nil
}

// DecodeObject decodes an object as a T; nil stays nil.
func DecodeObject[T any](o *object.Object) (*T, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // No object is no object.
	}
	return Decode[T](o.JSON())
}

// Permanentf returns an error that is not retried until the object changes.
func Permanentf(format string, args ...any) error {
	return &hook.TerminalError{Err: fmt.Errorf(format, args...)}
}

func (c *Controller) readGroups(groups []hook.Group, into any, owned bool) error {
	slice, err := sliceIn(into)
	if err != nil {
		return err
	}
	var wanted kinds.Kind // Zero for any.
	if t := slice.Type().Elem(); !kinds.IsAny(t) {
		if wanted, err = c.app.kinds().OfType(t); err != nil {
			return err
		}
		if owned && !kinds.Contains(c.owns, wanted) {
			return fmt.Errorf("declare %s with Owns", wanted)
		}
	}
	for _, group := range groups {
		is := kinds.Kind{APIVersion: group.APIVersion, Name: group.Kind}
		if wanted != (kinds.Kind{}) && wanted.Group() != is.Group() {
			continue
		}
		if err := fill(slice, group); err != nil {
			return err
		}
	}
	return nil
}

// sliceIn empties and returns the slice that a pointer points to.
func sliceIn(into any) (reflect.Value, error) {
	pointer := reflect.ValueOf(into)
	if pointer.Kind() != reflect.Pointer || pointer.IsNil() || pointer.Elem().Kind() != reflect.Slice {
		return pointer, fmt.Errorf("requires a pointer to a slice, not a %T", into)
	}
	pointer.Elem().SetLen(0)
	return pointer.Elem(), nil
}

func fill(slice reflect.Value, group hook.Group) error {
	for _, entry := range group.Objects {
		one := reflect.New(slice.Type().Elem())
		if err := json.Unmarshal(entry.Object, one.Interface()); err != nil {
			return fmt.Errorf("read %s %s as %s: %w", group.Kind, entry.Name, one.Type().Elem(), err)
		}
		slice.Set(reflect.Append(slice, one.Elem()))
	}
	return nil
}
