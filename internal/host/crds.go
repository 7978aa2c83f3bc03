package host

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
func (h *Host) installCRDs(ctx context.Context) error {
	for _, d := range h.kept() {
		if err := h.untilReachable(ctx, "install CRD "+d.Name(), func() error { return h.installCRD(ctx, d) }); err != nil {
			return err
		}
	}
	return h.awaitCRDs(ctx)
}

// installCRD installs one. What others have added to it, such as labels, stays.
func (h *Host) installCRD(ctx context.Context, d definition) error {
	if !d.breaking {
		if err := h.harmless(ctx, d); err != nil {
			return err
		}
	}
	return h.applyCRD(ctx, d)
}

// refusedUpgrade says what an upgrade of a CRD would break.
type refusedUpgrade struct{ breaks []string }

func (r *refusedUpgrade) Error() string {
	return "the upgrade is refused, because it could break objects that are stored, and those who use them: " + strings.Join(r.breaks, "; ") +
		"; add a version instead, or allow breaking changes"
}

// harmless says whether a CRD is there that its upgrade would break.
func (h *Host) harmless(ctx context.Context, d definition) error {
	stored, err := h.storedCRD(ctx, d.Name())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := breaks(stored, d.Object)
	if err == nil && len(found) > 0 {
		err = &refusedUpgrade{found}
	}
	return err
}

func (h *Host) storedCRD(ctx context.Context, name string) (*object.Object, error) {
	return readCRD(exchange(ctx, h.client.Get().AbsPath(definitions.Path("", name))))
}

func readCRD(data []byte, err error) (*object.Object, error) {
	if err != nil {
		return nil, err
	}
	return object.Parse(data)
}

// standbyCRDs waits until the API server serves the kinds that it takes, if it is
// another Setpoint that installs them. An older one never will: it has to go first,
// and in a rolling update goes when this one says that it is ready.
func (h *Host) standbyCRDs(ctx context.Context) error {
	if h.office.leads() {
		return nil
	}
	h.lacking.Store(h.lacksCRD(ctx))
	defer h.lacking.Store(false)
	return h.awaitCRDs(ctx)
}

// lacksCRD says that a kind is not served, and that the API server knows of no
// reason but that nobody has defined it.
func (h *Host) lacksCRD(ctx context.Context) bool {
	return slices.ContainsFunc(h.definitions, func(d definition) bool { return errors.Is(h.established(ctx, d), errNotYet) })
}

// awaitCRDs waits until the API server serves what they define.
func (h *Host) awaitCRDs(ctx context.Context) error {
	for _, d := range h.kept() {
		if err := h.untilReachable(ctx, "wait for CRD "+d.Name(), func() error { return h.established(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

// errNotYet says that it takes some more time.
var errNotYet = errors.New("not established yet")

// untilReachable repeats a step until the server answers it one way or another.
func (h *Host) untilReachable(ctx context.Context, step string, do func() error) error {
	var last error
	said := ""
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		if last = do(); last == nil {
			return true, nil
		}
		if final(last) {
			return false, last
		}
		if !errors.Is(last, errNotYet) && last.Error() != said {
			said = last.Error()
			h.log.Warn("CRDs are held up; trying again", "step", step, "error", said)
		}
		return false, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%s: %w", step, last)
	}
	return err
}

// final says that the server has answered, and will not answer otherwise.
func final(err error) bool {
	_, refused := errors.AsType[*refusedUpgrade](err)
	return refused || apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func (h *Host) applyCRD(ctx context.Context, d definition) error {
	applied, err := readCRD(exchange(ctx, h.applying(d)))
	if err != nil {
		return err
	}
	h.upkeep.applied(applied)
	return nil
}

// applying is the request that makes a CRD what its definition says.
func (h *Host) applying(d definition) *rest.Request {
	return h.client.Patch("application/apply-patch+yaml").
		AbsPath(definitions.Path("", d.Name())).
		Param("fieldManager", ownName).Param("force", "true").
		Body(d.JSON())
}

// established says whether a CRD is there and the versions wanted are served.
func (h *Host) established(ctx context.Context, d definition) error {
	stored, err := h.storedCRD(ctx, d.Name())
	if apierrors.IsNotFound(err) {
		return errNotYet
	}
	if err != nil {
		return err
	}
	for _, condition := range conditionsOf(stored) {
		switch {
		case condition.Type == "NamesAccepted" && condition.Status == metav1.ConditionFalse:
			return fmt.Errorf("its names are not accepted: %s", condition.Message)
		case condition.Type == "Established" && condition.Status == metav1.ConditionTrue:
			return h.servedAsWanted(ctx, d)
		}
	}
	return errNotYet
}

func conditionsOf(o *object.Object) []metav1.Condition {
	var conditions []metav1.Condition
	_ = json.Unmarshal(o.Field("status", "conditions"), &conditions) // Without any, there is none that holds.
	return conditions
}

// servedAsWanted says whether the versions of a CRD that are to be served are. They
// are a moment later than it is established.
func (h *Host) servedAsWanted(ctx context.Context, d definition) error {
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
		_, err := h.find(ctx, spec.Group+"/"+version.Name, spec.Names.Plural, func(r metav1.APIResource) bool { return r.Name == spec.Names.Plural })
		if errors.Is(err, compile.ErrNotServed) {
			return errNotYet
		}
		if err != nil {
			return err
		}
	}
	return nil
}
