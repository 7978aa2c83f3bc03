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
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
)

// reasonCRDDeleted: a user deleted a CRD that Setpoint installed; Setpoint creates it again at its
// next start.
const reasonCRDDeleted = "DefinitionDeleted"

// deletedCRDs are the CRDs that were deleted while this process runs. They stay deleted
// until it restarts: the deletion was intended.
type deletedCRDs struct {
	mu    sync.Mutex
	names map[string]bool
}

// set stores whether a CRD is deleted and reports whether that changed.
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

// err returns why the manager is not ready; nil if no CRD is deleted. The option
// recreates them.
func (l *deletedCRDs) err(option string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	deleted := slices.DeleteFunc(slices.Sorted(maps.Keys(l.names)), func(name string) bool { return !l.names[name] })
	if len(deleted) == 0 {
		return nil
	}
	return fmt.Errorf("deleted while this program runs: CustomResourceDefinition %s; restart the program to create it again, or start it with %s", strings.Join(deleted, ", "), option)
}

// watchCRDs watches the installed CRDs until the returned function is called.
func (m *Manager) watchCRDs(ctx context.Context) (closeAll func()) {
	var views []*cache.View
	wanted := map[string]crds.Manifest{}
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
	selections := []cache.Selection{{Resource: crds.Resource, Metadata: true}}
	if len(m.options.GoControllers) > 0 {
		selections = nil // A program may be allowed to watch only its own CRDs.
		for _, name := range crds.Names(m.crds) {
			selections = append(selections, cache.Selection{Resource: crds.Resource, Name: name, Metadata: true})
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

// crdObserved handles the creation or deletion of a CRD.
func (m *Manager) crdObserved(ctx context.Context, d crds.Manifest, exists bool) {
	switch changed := m.deletedCRDs.set(d.Name(), !exists); {
	case !changed || ctx.Err() != nil:
	case exists:
		m.log.Info("CRD exists again", "crd", d.Name())
	case m.options.RecreateCRDs:
		m.log.Warn("CRD was deleted; recreating it", "crd", d.Name())
		m.recordCRDEvent(d, "deleted while "+m.name()+" runs; "+m.name()+" recreates it")
		go m.recreateCRD(ctx, d)
	default:
		m.log.Error("CRD was deleted; restart this program to recreate it, or start it with the option", "crd", d.Name(), "option", m.recreateFlag())
		m.recordCRDEvent(d, "deleted while "+m.name()+" runs; restart "+m.name()+" to recreate it, or start it with "+m.recreateFlag())
	}
}

// recreateFlag returns the flag that recreates deleted CRDs.
func (m *Manager) recreateFlag() string {
	if len(m.options.GoControllers) > 0 {
		return "--recreate-crds"
	}
	return "--crds=recreate"
}

// recreateCRD installs a deleted CRD, in the leader.
func (m *Manager) recreateCRD(ctx context.Context, d crds.Manifest) {
	if !m.leader.Leads() {
		return
	}
	if err := m.retryUntilReachable(ctx, "install CRD "+d.Name(), func() error { return m.installCRD(ctx, d) }); err != nil && ctx.Err() == nil {
		m.log.Error("CRD was not recreated", "crd", d.Name(), "error", failure.OneLine(err))
	}
}

func (m *Manager) recordCRDEvent(d crds.Manifest, message string) {
	m.events.EventAt(hook.ObjectEvent{
		APIVersion: crds.Resource.APIVersion(), Kind: crds.Resource.Kind, Name: d.Name(),
		Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonCRDDeleted, Message: message},
	})
}

// wantedCRDs returns the CRDs to install. Those deleted while this process runs stay
// deleted, also after a new leader election.
func (m *Manager) wantedCRDs() []crds.Manifest {
	if m.options.RecreateCRDs {
		return m.crds
	}
	return slices.DeleteFunc(slices.Clone(m.crds), func(d crds.Manifest) bool { return m.deletedCRDs.has(d.Name()) })
}
