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

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// installCRDs installs or upgrades what there is to, and waits until the API
// server serves it. It keeps trying while the server cannot be reached.
func (m *Manager) installCRDs(ctx context.Context) error {
	for _, d := range m.wantedCRDs() {
		if err := m.retryUntilReachable(ctx, "install CRD "+d.Name(), func() error { return m.installCRD(ctx, d) }); err != nil {
			return err
		}
	}
	return m.awaitCRDs(ctx)
}

// installCRD installs one. What others have added to it, such as labels, stays.
func (m *Manager) installCRD(ctx context.Context, d crdManifest) error {
	if !d.allowBreaking {
		if err := m.checkUpgrade(ctx, d); err != nil {
			return err
		}
	}
	return m.applyCRD(ctx, d)
}

// breakingUpgradeError says what an upgrade of a CRD would break.
type breakingUpgradeError struct{ changes []string }

func (r *breakingUpgradeError) Error() string {
	return "the upgrade is refused, because it could break objects that are stored, and those who use them: " + strings.Join(r.changes, "; ") +
		"; add a version instead, or allow breaking changes"
}

// checkUpgrade says whether a CRD is there that its upgrade would break.
func (m *Manager) checkUpgrade(ctx context.Context, d crdManifest) error {
	stored, err := m.storedCRD(ctx, d.Name())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := breakingChanges(stored, d.Object)
	if err == nil && len(found) > 0 {
		err = &breakingUpgradeError{found}
	}
	return err
}

func (m *Manager) storedCRD(ctx context.Context, name string) (*object.Object, error) {
	return readCRD(doRequest(ctx, m.client.Get().AbsPath(crdResource.Path("", name))))
}

func readCRD(data []byte, err error) (*object.Object, error) {
	if err != nil {
		return nil, err
	}
	return object.Parse(data)
}

// awaitCRDsAsStandby waits until the API server serves the kinds that it takes, if it is
// another Setpoint that installs them. An older one never will: it has to go first,
// and in a rolling update goes when this one says that it is ready.
func (m *Manager) awaitCRDsAsStandby(ctx context.Context) error {
	if m.leadership.leads() {
		return nil
	}
	m.awaitingCRDs.Store(m.missingCRD(ctx))
	defer m.awaitingCRDs.Store(false)
	return m.awaitCRDs(ctx)
}

// missingCRD says that a kind is not served, and that the API server knows of no
// reason but that nobody has defined it.
func (m *Manager) missingCRD(ctx context.Context) bool {
	return slices.ContainsFunc(m.crds, func(d crdManifest) bool { return errors.Is(m.checkEstablished(ctx, d), errNotEstablished) })
}

// awaitCRDs waits until the API server serves what they define.
func (m *Manager) awaitCRDs(ctx context.Context) error {
	for _, d := range m.wantedCRDs() {
		if err := m.retryUntilReachable(ctx, "wait for CRD "+d.Name(), func() error { return m.checkEstablished(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

// errNotEstablished says that it takes some more time.
var errNotEstablished = errors.New("not established yet")

// retryUntilReachable repeats a step until the server answers it one way or another.
func (m *Manager) retryUntilReachable(ctx context.Context, step string, do func() error) error {
	var last error
	said := ""
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		if last = do(); last == nil {
			return true, nil
		}
		if isPermanent(last) {
			return false, last
		}
		if !errors.Is(last, errNotEstablished) && last.Error() != said {
			said = last.Error()
			m.log.Warn("CRDs are held up; trying again", "step", step, "error", said)
		}
		return false, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%s: %w", step, last)
	}
	return err
}

// isPermanent says that the server has answered, and will not answer otherwise.
func isPermanent(err error) bool {
	_, refused := errors.AsType[*breakingUpgradeError](err)
	return refused || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func (m *Manager) applyCRD(ctx context.Context, d crdManifest) error {
	applied, err := readCRD(doRequest(ctx, m.applyCRDRequest(d)))
	if err != nil {
		return err
	}
	m.crdDrift.applied(applied)
	return nil
}

// applyCRDRequest is the request that makes a CRD what its definition says.
func (m *Manager) applyCRDRequest(d crdManifest) *rest.Request {
	return m.client.Patch("application/apply-patch+yaml").
		AbsPath(crdResource.Path("", d.Name())).
		Param("fieldManager", programName).Param("force", "true").
		Body(d.JSON())
}

// checkEstablished says whether a CRD is there and the versions wanted are served.
func (m *Manager) checkEstablished(ctx context.Context, d crdManifest) error {
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
			return fmt.Errorf("its names are not accepted: %s", condition.Message)
		case condition.Type == "Established" && condition.Status == metav1.ConditionTrue:
			return m.checkVersionsServed(ctx, d)
		}
	}
	return errNotEstablished
}

func conditionsOf(o *object.Object) []metav1.Condition {
	var conditions []metav1.Condition
	_ = json.Unmarshal(o.Field("status", "conditions"), &conditions) // Without any, there is none that holds.
	return conditions
}

// checkVersionsServed says whether the versions of a CRD that are to be served are. They
// are a moment later than it is established.
func (m *Manager) checkVersionsServed(ctx context.Context, d crdManifest) error {
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
