package compile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Compiled is a compiled controller.
type Compiled struct {
	// Programs are one for each kind of parent, Handlers one for each kind of object that has handlers, and Admission
	// has the webhooks, nil if there are none. They have one name. There is none of them only if other controllers of an
	// operator handle all its kinds.
	Programs  []composite.Program
	Handlers  []handler.Program
	Admission *admission.Program
	// AdmissionKinds are the kinds that Admission reviews.
	AdmissionKinds []object.Resource
	// Credentials are the Secrets and ConfigMaps that connections to hooks need.
	Credentials []object.Ref
	// Code is that of inline hooks.
	Code Code
	// HookAddresses are the hosts and ports of the hooks, or inline, or exec: with a program.
	HookAddresses []string
	// Account is the ServiceAccount of the programs; zero for Setpoint's own rights.
	Account identity.Account
	// Suspended means that the programs must not run.
	Suspended bool
	// Rollout says how parents move to changed hooks; nil if they all do at once.
	Rollout *Rollout
	// StatusWarning says that a kind of parents has no status subresource; usually empty.
	StatusWarning string
	// Notes are warnings about an accepted spec.
	Notes []string
	// Excluded are namespaces in which the programs do not run yet, and Incomplete is why, if a user
	// has to act.
	Excluded   []string
	Incomplete *Refusal
	// Unserved are the kinds that are not served any more.
	Unserved []object.Resource
	// Absent are those of the namespaces that do not exist.
	Absent []string
	// Release closes the connections of the programs.
	Release func()
	// Index fills the indexes that functions in Go read by watches of a cache, until end is called; nil if there are
	// none. Compile does so by the Store, if there is one.
	Index func(from *cache.Cache) (end func(), err error)
}

// Code is the code of the inline hooks of a controller.
type Code struct {
	// ConfigMaps are those that hold code.
	ConfigMaps []object.Ref
	// Digest identifies the code that is in use; empty if there is none.
	Digest string
	// Outdated is why code of a ConfigMap cannot be used, so that the one before is; nil if it can.
	Outdated *Refusal
}

// Rollout says how parents move to changed hooks.
type Rollout struct {
	Spec *api.Rollout
	// Version is the name of the ControllerRevision of the version in the spec, and Data what it stores.
	Version string
	Data    json.RawMessage
	// When is the condition of a rollback; nil for none.
	When func(parent *object.Object, children []*object.Object) (bool, error)
}

// Name returns the name of the programs; "" if there are none.
func (c *Compiled) Name() string {
	switch {
	case len(c.Programs) > 0:
		return c.Programs[0].Name
	case len(c.Handlers) > 0:
		return c.Handlers[0].Name
	case c.Admission != nil:
		return c.Admission.Name
	}
	return ""
}

// Former returns the name of the version that reconciles the parents which have not moved; "" if all have.
func (c *Compiled) Former() string {
	for i := range c.Programs {
		if previous := c.Programs[i].Previous; previous != nil {
			return previous.Version
		}
	}
	return ""
}

// Close closes the connections of the programs, if there are any.
func (c *Compiled) Close() {
	if c != nil && c.Release != nil {
		c.Release()
	}
}

// Add adds the programs of another part of the same controller.
func (c *Compiled) Add(part *Compiled) {
	release := c.Release
	c.Programs = append(c.Programs, part.Programs...)
	c.Handlers = append(c.Handlers, part.Handlers...)
	c.Credentials = append(c.Credentials, part.Credentials...)
	c.HookAddresses = slices.Compact(slices.Sorted(slices.Values(append(c.HookAddresses, part.HookAddresses...))))
	c.Notes = append(c.Notes, part.Notes...)
	c.Unserved = append(c.Unserved, part.Unserved...)
	c.Account, c.Suspended = part.Account, part.Suspended
	c.Release = func() {
		release()
		part.Release()
	}
}

// Finalizes reports whether the programs add a finalizer.
func (c *Compiled) Finalizes() bool { return len(c.Finalizers()) > 0 }

// Finalizers returns the finalizers that the programs add, by the kind of the objects.
func (c *Compiled) Finalizers() map[ResourceName]string {
	all := map[ResourceName]string{}
	for i := range c.Programs {
		if p := &c.Programs[i]; p.Finalizes() {
			all[ResourceName{p.Parent.APIVersion(), p.Parent.Plural}] = p.Finalizer
		}
	}
	for i := range c.Handlers {
		if p := &c.Handlers[i]; blocksDeletion(p) {
			all[ResourceName{p.Resource.APIVersion(), p.Resource.Plural}] = p.Finalizer
		}
	}
	return all
}

// blocksDeletion reports whether the deletion of an object waits for a handler.
func blocksDeletion(p *handler.Program) bool {
	return slices.ContainsFunc(p.Handlers, func(h trigger.Handler) bool {
		return h.Daemon != nil || !h.Optional && slices.Contains(h.On, hook.ReasonDelete)
	})
}

// TakeOverRecords makes the programs continue from the records of a former HandlerController.
func (c *Compiled) TakeOverRecords(name string) {
	for i := range c.Handlers {
		p := &c.Handlers[i]
		record := lasthandled.Location{Annotation: recordAnnotation(name)}
		if p.Record.StatusKey != "" {
			record.StatusKey = handlerSignature(name)
		}
		p.PreviousRecords = append(p.PreviousRecords, record)
		if isReplicaSet(p.Resource) {
			p.PreviousRecords = append(p.PreviousRecords, lasthandled.Location{Annotation: copiedRecordAnnotation(name)})
		}
	}
}

// Resources returns the kinds of the objects that the programs manage, of their children and
// other objects that the programs may write, and of those that they only read.
func (c *Compiled) Resources() (managed, written, read []object.Resource) {
	for _, p := range c.Programs {
		managed = append(managed, p.Parent)
		for _, rule := range p.Children {
			written = append(written, rule.Resource)
		}
		read = append(read, p.Reads...)
	}
	for _, p := range c.Handlers {
		managed = append(managed, p.Resource)
		written = append(written, p.Owns...)
		for _, w := range p.Writes {
			written = append(written, w.Resource)
		}
		read = append(read, p.Reads...)
		for i := range p.Related {
			read = append(read, p.Related[i].Resource)
		}
	}
	return managed, written, read
}

// SetUnserved finds the kinds that are not served any more, and marks a controller that runs without them as
// incomplete.
func (c *Compiled) SetUnserved() {
	_, written, read := c.Resources()
	all := lists.Filter(slices.Concat(written, read), func(r object.Resource) bool { return r.Unserved })
	all = append(all, c.Unserved...)
	slices.SortFunc(all, func(a, b object.Resource) int { return cmp.Compare(a.String(), b.String()) })
	if c.Unserved = slices.Compact(all); len(all) == 0 {
		return
	}
	names := lists.Map(c.Unserved, object.Resource.String)
	c.Incomplete = &Refusal{Reason: api.ReasonResourceNotFound, Err: fmt.Errorf(
		"%s: %w any more; the controller goes on without such objects until they are served again",
		strings.Join(names, ", "), ErrNotServed)}
}

// Namespaces returns the namespaces that the programs are limited to; none mean all.
func (c *Compiled) Namespaces() []string {
	all := slices.Concat(
		lists.FlatMap(c.Programs, func(p composite.Program) []string { return p.Namespaces }),
		lists.FlatMap(c.Handlers, func(p handler.Program) []string { return p.Namespaces }))
	slices.Sort(all)
	return slices.Compact(all)
}

// Exclude excludes some of the namespaces that the programs are limited to, and returns those that
// are left. It does nothing and returns none if no program would be left, or if the programs are
// not limited to the excluded ones: then they do not run without them.
func (c *Compiled) Exclude(excluded []string) (left []string) {
	all := c.Namespaces()
	keep := func(names []string) []string {
		return lists.Filter(names, func(one string) bool { return !slices.Contains(excluded, one) })
	}
	if left = keep(all); len(left)+len(excluded) != len(all) || len(left) == 0 {
		return nil
	}
	c.Programs = lists.Filter(c.Programs, func(p composite.Program) bool { return !slices.Contains(excluded, p.Namespace) })
	for i := range c.Programs {
		c.Programs[i].Namespaces = keep(c.Programs[i].Namespaces)
	}
	for i := range c.Handlers {
		c.Handlers[i].Namespaces = keep(c.Handlers[i].Namespaces)
	}
	c.Excluded = append(c.Excluded, excluded...)
	return left
}
