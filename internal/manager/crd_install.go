package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// installCRDs installs or upgrades the CRDs and waits until they are served. It retries
// while the API server is unreachable.
func (m *Manager) installCRDs(ctx context.Context) error {
	for _, d := range m.wantedCRDs() {
		if err := m.retryUntilReachable(ctx, "install CRD "+d.Name(), func() error { return m.installCRD(ctx, d) }); err != nil {
			return err
		}
	}
	return m.awaitCRDs(ctx)
}

// installCRD installs one CRD. Labels and other fields of other managers stay.
func (m *Manager) installCRD(ctx context.Context, d crds.Manifest) error {
	if !d.AllowBreaking {
		if err := m.checkUpgrade(ctx, d); err != nil {
			return err
		}
	}
	return m.applyCRD(ctx, d)
}

// breakingUpgradeError lists what an upgrade of a CRD would break.
type breakingUpgradeError struct{ changes []string }

func (r *breakingUpgradeError) Error() string {
	return "the upgrade is refused because it could break stored objects or clients: " + strings.Join(r.changes, "; ") +
		"; add a version instead, or allow breaking changes"
}

// checkUpgrade returns a breakingUpgradeError if the upgrade of a stored CRD is breaking.
func (m *Manager) checkUpgrade(ctx context.Context, d crds.Manifest) error {
	stored, err := m.storedCRD(ctx, d.Name())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := crds.BreakingChanges(stored, d.Object)
	if err == nil && len(found) > 0 {
		err = &breakingUpgradeError{found}
	}
	return err
}

func (m *Manager) storedCRD(ctx context.Context, name string) (*object.Object, error) {
	return readCRD(request.Do(ctx, m.client.Get().AbsPath(crds.Resource.Path("", name))))
}

func readCRD(data []byte, err error) (*object.Object, error) {
	if err != nil {
		return nil, err
	}
	return object.Parse(data)
}

// awaitCRDsAsStandby waits until the CRDs are served that the leader installs. A leader of
// an older release never installs them: it stops in a rolling update as soon as this
// replica is ready.
func (m *Manager) awaitCRDsAsStandby(ctx context.Context) error {
	if m.leader.Leads() {
		return nil
	}
	m.awaitingCRDs.Store(m.missingCRD(ctx))
	defer m.awaitingCRDs.Store(false)
	return m.awaitCRDs(ctx)
}

// missingCRD reports whether a CRD is not installed.
func (m *Manager) missingCRD(ctx context.Context) bool {
	return slices.ContainsFunc(m.crds, func(d crds.Manifest) bool { return errors.Is(m.checkEstablished(ctx, d), errNotEstablished) })
}

// awaitCRDs waits until the API server serves the CRDs.
func (m *Manager) awaitCRDs(ctx context.Context) error {
	for _, d := range m.wantedCRDs() {
		if err := m.retryUntilReachable(ctx, "wait for CRD "+d.Name(), func() error { return m.checkEstablished(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

// errNotEstablished means that the CRD is not served yet.
var errNotEstablished = errors.New("not established yet")

// retryUntilReachable repeats a step until it succeeds or fails permanently.
func (m *Manager) retryUntilReachable(ctx context.Context, step string, do func() error) error {
	var last error
	logged := ""
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		if last = do(); last == nil {
			return true, nil
		}
		if isPermanent(last) {
			return false, last
		}
		if !errors.Is(last, errNotEstablished) && last.Error() != logged {
			logged = last.Error()
			m.log.Warn("CRDs not installed; retrying", "step", step, "error", logged)
		}
		return false, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%s: %w", step, last)
	}
	return err
}

// isPermanent reports whether a retry is useless.
func isPermanent(err error) bool {
	_, refused := errors.AsType[*breakingUpgradeError](err)
	return refused || request.IsPermanent(err)
}

func (m *Manager) applyCRD(ctx context.Context, d crds.Manifest) error {
	applied, err := readCRD(request.Do(ctx, m.applyCRDRequest(d)))
	if err != nil {
		return err
	}
	m.crdDrift.applied(applied)
	return nil
}

// applyCRDRequest returns the request that applies a CRD.
func (m *Manager) applyCRDRequest(d crds.Manifest) *rest.Request {
	return m.client.Patch("application/apply-patch+yaml").
		AbsPath(crds.Resource.Path("", d.Name())).
		Param("fieldManager", programName).Param("force", "true").
		Body(d.JSON())
}

// checkEstablished returns nil when a CRD is established and its versions are served.
func (m *Manager) checkEstablished(ctx context.Context, d crds.Manifest) error {
	stored, err := m.storedCRD(ctx, d.Name())
	if apierrors.IsNotFound(err) {
		return errNotEstablished
	}
	if err != nil {
		return err
	}
	for _, condition := range conditionsOf(stored) {
		switch {
		case condition.Type == "NamesAccepted" && condition.Status == metav1.ConditionFalse:
			return fmt.Errorf("names not accepted: %s", condition.Message)
		case condition.Type == "Established" && condition.Status == metav1.ConditionTrue:
			return m.checkVersionsServed(ctx, d)
		}
	}
	return errNotEstablished
}

func conditionsOf(o *object.Object) []metav1.Condition {
	var conditions []metav1.Condition
	_ = json.Unmarshal(o.Field("status", "conditions"), &conditions) // Invalid conditions count as none.
	return conditions
}

// checkVersionsServed returns nil when the API server serves all served versions of a CRD,
// which is shortly after it is established.
func (m *Manager) checkVersionsServed(ctx context.Context, d crds.Manifest) error {
	var spec struct {
		Group    string
		Names    struct{ Plural string }
		Versions []struct {
			Name   string
			Served bool
		}
	}
	if err := json.Unmarshal(d.Field("spec"), &spec); err != nil {
		return err
	}
	for _, version := range spec.Versions {
		if !version.Served {
			continue
		}
		_, err := m.findResource(ctx, spec.Group+"/"+version.Name, spec.Names.Plural, func(r metav1.APIResource) bool { return r.Name == spec.Names.Plural })
		if errors.Is(err, compile.ErrNotServed) {
			return errNotEstablished
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// crdsToInstall returns the CRDs of controllers, unless SkipCRDs is set or a Go program
// declares all controllers, and those of the options. An upgrade of Setpoint's own CRDs is
// never refused.
func crdsToInstall(o Options) ([]crds.Manifest, error) {
	var all []crds.Manifest
	if !o.SkipCRDs && len(o.GoControllers) == 0 {
		ours, err := controllerCRDs()
		if err != nil {
			return nil, err
		}
		all = ours
	}
	given, err := crds.Parse(o.CRDs, o.AllowBreakingCRDs)
	if err != nil {
		return nil, fmt.Errorf("read the CRDs of the program: %w", err)
	}
	return append(all, given...), nil
}

// controllerCRDs returns the CRDs of controllers in this release.
func controllerCRDs() ([]crds.Manifest, error) {
	texts, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	all, err := crds.Parse(texts, true)
	if err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	return all, nil
}

// statusSchema returns which status fields the CRD of a kind has. It is empty for built-in
// kinds, and where Setpoint may not read the CRD.
func (m *Manager) statusSchema(ctx context.Context, resource object.Resource) (compile.Status, error) {
	if !resource.Custom || !resource.Status {
		return compile.Status{}, nil
	}
	stored, err := m.storedCRD(ctx, crds.NameOf(resource))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return compile.Status{}, nil
	case err != nil:
		return compile.Status{}, fmt.Errorf("look up the schema of %s: %w", resource, err)
	}
	return crds.StatusSchema(stored, resource.Version)
}
