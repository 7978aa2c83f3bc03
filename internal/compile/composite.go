package compile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// composite is the neutral form of a CompositeController, whatever its group.
type composite struct {
	parent           named
	parentLabels     *metav1.LabelSelector
	statusWakes      bool
	children         []child
	sync             syncHook
	generateSelector bool
	resync           time.Duration
	lastApplied      string
	outline          bool
}

// named is a resource as a user names it.
type named struct{ apiVersion, plural string }

type child struct {
	named
	method plan.Method
}

// syncHook is where and how the hook is asked.
type syncHook struct {
	version  hook.Version
	decoding hook.Decoding
	url      string
	timeout  time.Duration
}

// resolve finds the kinds the spec names and sets what of the program follows
// from the spec alone.
func (s *composite) resolve(ctx context.Context, env Environment, into *Compiled) (err error) {
	into.Parent, err = find(ctx, env, "spec.parentResource", s.parent)
	if err != nil {
		return err
	}
	for i, c := range s.children {
		resource, err := find(ctx, env, "spec.childResources["+strconv.Itoa(i)+"]", c.named)
		if err != nil {
			return err
		}
		if _, twice := into.Children.For(resource.GroupKind()); twice {
			return invalid("spec.childResources[%d]: the kind %s is listed before; one rule decides how its objects are updated", i, resource.Kind)
		}
		if !resource.Namespaced && into.Parent.Namespaced {
			return invalid("spec.childResources[%d]: %s are cluster-scoped and cannot be children of the namespaced %s", i, resource, into.Parent)
		}
		into.Children = append(into.Children, plan.Rule{Resource: resource, Method: c.method})
	}
	slices.SortFunc(into.Children, byKind)
	if !into.Parent.Status {
		into.Notes = append(into.Notes, fmt.Sprintf("%s have no status subresource: the status in replies is not stored", into.Parent))
	}
	into.GenerateSelector, into.StatusWakes = s.generateSelector, s.statusWakes
	into.Resync, into.LastApplied, into.Outline = s.resync, s.lastApplied, s.outline
	into.Selections, err = selectionsOf(s.parentLabels)
	return err
}

// byKind keeps the order of rules the same whatever the order in the spec.
func byKind(a, b plan.Rule) int {
	return cmp.Or(cmp.Compare(a.Resource.Group, b.Resource.Group), cmp.Compare(a.Resource.Kind, b.Resource.Kind))
}

func find(ctx context.Context, env Environment, field string, name named) (object.Resource, error) {
	resource, err := env.Resolve(ctx, name.apiVersion, name.plural)
	if errors.Is(err, ErrNotServed) {
		return resource, refuse(setpoint.ReasonResourceNotFound,
			"%s: %s of %s: %w; the controller starts by itself when it is", field, name.plural, name.apiVersion, ErrNotServed)
	}
	if err != nil {
		return resource, fmt.Errorf("%s: look up %s of %s: %w", field, name.plural, name.apiVersion, err)
	}
	return resource, nil
}

// selectionsOf reads a label selector for parents.
func selectionsOf(selector *metav1.LabelSelector) ([]engine.Selection, error) {
	if selector == nil {
		return nil, nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, invalid("spec.parentResource.labelSelector: %w", err)
	}
	return []engine.Selection{{Labels: parsed}}, nil
}

// connect makes the webhook.
func (s *composite) connect(env Environment, into *Compiled) error {
	name := into.Name
	hooked, err := webhook.New(webhook.Config{
		URL:         s.sync.url,
		Wire:        hook.Wire{Version: s.sync.version, Decoding: s.sync.decoding},
		Timeout:     s.sync.timeout,
		Concurrency: env.Workers,
		UserAgent:   env.UserAgent,
		Dial:        env.Dial,
		Observe: func(e webhook.Exchange) {
			if env.Called != nil {
				env.Called(name, e)
			}
		},
	})
	if err != nil {
		return invalid("spec.hooks.sync.webhook: %w", err)
	}
	into.Sync, into.Release = hooked, hooked.Close
	into.HookAddress = addressOf(s.sync.url)
	return nil
}

// addressOf is the host and port of a URL.
func addressOf(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return ""
	}
	if parsed.Port() != "" {
		return parsed.Host
	}
	return net.JoinHostPort(parsed.Hostname(), portOf(parsed.Scheme))
}

func portOf(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}

// serviceURL is the address of a webhook given as a Service.
func serviceURL(protocol, name, namespace string, port int32, path string) string {
	host := name + "." + namespace
	if strconv.Itoa(int(port)) != portOf(protocol) {
		host = net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	return protocol + "://" + host + path
}

// readSpec decodes a controller object into the type of its kind.
func readSpec(o *object.Object, into any) error {
	if err := json.Unmarshal(o.JSON(), into); err != nil {
		return invalid("%w", err)
	}
	return nil
}
