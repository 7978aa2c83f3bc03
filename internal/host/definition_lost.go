package host

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// reasonDefinitionDeleted is that of the event at a CRD that was deleted while we run.
const reasonDefinitionDeleted = "DefinitionDeleted"

// lostDefinitions are the CRDs that this process saw installed, and then deleted. They
// stay deleted until it starts again: the deletion was intended.
type lostDefinitions struct {
	mu    sync.Mutex
	names map[string]bool
}

// set notes whether a CRD is lost, and says whether that is new.
func (l *lostDefinitions) set(name string, lost bool) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names[name] == lost {
		return false
	}
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[name] = lost
	return true
}

func (l *lostDefinitions) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

// err is why the host is not ready; nil if no CRD is lost. The option creates them again.
func (l *lostDefinitions) err(option string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := slices.DeleteFunc(slices.Sorted(maps.Keys(l.names)), func(name string) bool { return !l.names[name] })
	if len(lost) == 0 {
		return nil
	}
	return fmt.Errorf("deleted while this program runs: CustomResourceDefinition %s; it is created again when the program starts, or at once with %s", strings.Join(lost, ", "), option)
}

// watchDefinitions follows the CRDs that were installed, until the watches are closed.
func (h *Host) watchDefinitions(ctx context.Context) (closeAll func()) {
	var views []*store.View
	wanted := map[string]definition{}
	changed := func(e store.Event) {
		o := e.New
		if o == nil {
			o = e.Old
		}
		if d, ours := wanted[o.Name()]; ours {
			h.definitionSeen(ctx, d, e.New != nil)
		}
	}
	for _, d := range h.definitions {
		wanted[d.Name()] = d
	}
	selections := []store.Selection{{Resource: definitions, Metadata: true}}
	if len(h.options.Own) > 0 {
		selections = nil // A program may be allowed to see those alone that concern it.
		for _, name := range names(h.definitions) {
			selections = append(selections, store.Selection{Resource: definitions, Name: name, Metadata: true})
		}
	}
	if len(wanted) == 0 {
		selections = nil
	}
	for _, selection := range selections {
		views = append(views, h.store.Watch(selection, changed))
	}
	return func() {
		for _, view := range views {
			view.Close()
		}
	}
}

// definitionSeen notes that a CRD is there, or was deleted.
func (h *Host) definitionSeen(ctx context.Context, d definition, there bool) {
	switch changed := h.lost.set(d.Name(), !there); {
	case !changed || ctx.Err() != nil:
	case there:
		h.log.Info("CRD is there again", "crd", d.Name())
	case h.options.RecreateDefinitions:
		h.log.Warn("CRD was deleted; creating it again", "crd", d.Name())
		h.tellDefinition(d, "was deleted while "+h.name()+" runs, which creates it again")
		go h.recreate(ctx, d)
	default:
		h.log.Error("CRD was deleted; it is created again when this program starts, or at once with an option", "crd", d.Name(), "option", h.recreateOption())
		h.tellDefinition(d, "was deleted while "+h.name()+" runs, which creates it again when it starts, or at once with "+h.recreateOption())
	}
}

// recreateOption is the flag that has deleted CRDs created again.
func (h *Host) recreateOption() string {
	if len(h.options.Own) > 0 {
		return "--recreate-crds"
	}
	return "--crds=recreate"
}

// recreate installs a CRD that was deleted, in the replica that leads.
func (h *Host) recreate(ctx context.Context, d definition) {
	if !h.office.leads() {
		return
	}
	if err := h.untilReachable(ctx, "install CRD "+d.Name(), func() error { return h.installCRD(ctx, d) }); err != nil && ctx.Err() == nil {
		h.log.Error("CRD was not created again", "crd", d.Name(), "error", failure.OneLine(err))
	}
}

func (h *Host) tellDefinition(d definition, message string) {
	h.events.TellAt(hook.EventAt{
		APIVersion: definitions.APIVersion(), Kind: definitions.Kind, Name: d.Name(),
		Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonDefinitionDeleted, Message: message},
	})
}

// kept are the CRDs that are to be installed: those that were deleted while we run stay
// so, also where another term begins.
func (h *Host) kept() []definition {
	if h.options.RecreateDefinitions {
		return h.definitions
	}
	return slices.DeleteFunc(slices.Clone(h.definitions), func(d definition) bool { return h.lost.has(d.Name()) })
}
