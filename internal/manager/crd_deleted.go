package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// reasonCRDDeleted: a user deleted a CRD that Setpoint installed; Setpoint creates it again at its
// next start.
const reasonCRDDeleted = "DefinitionDeleted"

// deletedCRDs are the CRDs that this process saw installed, and then deleted. They
// stay deleted until it starts again: the deletion was intended.
type deletedCRDs struct {
	mu    sync.Mutex
	names map[string]bool
}

// set notes whether a CRD is lost, and says whether that is new.
func (l *deletedCRDs) set(name string, deleted bool) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.names[name] == deleted {
		return false
	}
	if l.names == nil {
		l.names = map[string]bool{}
	}
	l.names[name] = deleted
	return true
}

func (l *deletedCRDs) has(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.names[name]
}

// err is why the host is not ready; nil if no CRD is lost. The option creates them again.
func (l *deletedCRDs) err(option string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	deleted := slices.DeleteFunc(slices.Sorted(maps.Keys(l.names)), func(name string) bool { return !l.names[name] })
	if len(deleted) == 0 {
		return nil
	}
	return fmt.Errorf("deleted while this program runs: CustomResourceDefinition %s; it is created again when the program starts, or at once with %s", strings.Join(deleted, ", "), option)
}

// watchCRDs follows the CRDs that were installed, until the watches are closed.
func (m *Manager) watchCRDs(ctx context.Context) (closeAll func()) {
	var views []*cache.View
	wanted := map[string]crdManifest{}
	changed := func(e cache.Event) {
		o := e.New
		if o == nil {
			o = e.Old
		}
		if d, ours := wanted[o.Name()]; ours {
			m.crdObserved(ctx, d, e.New != nil)
		}
	}
	for _, d := range m.crds {
		wanted[d.Name()] = d
	}
	selections := []cache.Selection{{Resource: crdResource, Metadata: true}}
	if len(m.options.GoControllers) > 0 {
		selections = nil // A program may be allowed to see those alone that concern it.
		for _, name := range crdNames(m.crds) {
			selections = append(selections, cache.Selection{Resource: crdResource, Name: name, Metadata: true})
		}
	}
	if len(wanted) == 0 {
		selections = nil
	}
	for _, selection := range selections {
		views = append(views, m.store.Watch(selection, changed))
	}
	return func() {
		for _, view := range views {
			view.Close()
		}
	}
}

// crdObserved notes that a CRD is there, or was deleted.
func (m *Manager) crdObserved(ctx context.Context, d crdManifest, exists bool) {
	switch changed := m.deletedCRDs.set(d.Name(), !exists); {
	case !changed || ctx.Err() != nil:
	case exists:
		m.log.Info("CRD is there again", "crd", d.Name())
	case m.options.RecreateCRDs:
		m.log.Warn("CRD was deleted; creating it again", "crd", d.Name())
		m.recordCRDEvent(d, "was deleted while "+m.name()+" runs, which creates it again")
		go m.recreateCRD(ctx, d)
	default:
		m.log.Error("CRD was deleted; it is created again when this program starts, or at once with an option", "crd", d.Name(), "option", m.recreateFlag())
		m.recordCRDEvent(d, "was deleted while "+m.name()+" runs, which creates it again when it starts, or at once with "+m.recreateFlag())
	}
}

// recreateFlag is the flag that has deleted CRDs created again.
func (m *Manager) recreateFlag() string {
	if len(m.options.GoControllers) > 0 {
		return "--recreate-crds"
	}
	return "--crds=recreate"
}

// recreateCRD installs a CRD that was deleted, in the replica that leads.
func (m *Manager) recreateCRD(ctx context.Context, d crdManifest) {
	if !m.leadership.leads() {
		return
	}
	if err := m.retryUntilReachable(ctx, "install CRD "+d.Name(), func() error { return m.installCRD(ctx, d) }); err != nil && ctx.Err() == nil {
		m.log.Error("CRD was not created again", "crd", d.Name(), "error", failure.OneLine(err))
	}
}

func (m *Manager) recordCRDEvent(d crdManifest, message string) {
	m.events.EventAt(hook.ObjectEvent{
		APIVersion: crdResource.APIVersion(), Kind: crdResource.Kind, Name: d.Name(),
		Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonCRDDeleted, Message: message},
	})
}

// wantedCRDs are the CRDs that are to be installed: those that were deleted while we run stay
// so, also where another term begins.
func (m *Manager) wantedCRDs() []crdManifest {
	if m.options.RecreateCRDs {
		return m.crds
	}
	return slices.DeleteFunc(slices.Clone(m.crds), func(d crdManifest) bool { return m.deletedCRDs.has(d.Name()) })
}
