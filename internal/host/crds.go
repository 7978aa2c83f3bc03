package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/config/crd"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// definitions is how CRDs are served.
var definitions = object.Resource{
	Group: "apiextensions.k8s.io", Version: "v1", Plural: "customresourcedefinitions", Kind: "CustomResourceDefinition", Status: true,
}

// installCRDs installs or upgrades the kinds of controllers, and waits until the
// API server serves them. It keeps trying while the server cannot be reached.
func (h *Host) installCRDs(ctx context.Context) error {
	if h.options.SkipCRDs {
		return nil
	}
	ours, err := ourCRDs()
	if err != nil {
		return err
	}
	for _, definition := range ours {
		if err := h.installCRD(ctx, definition); err != nil {
			return err
		}
	}
	return nil
}

// ourCRDs are the definitions in the binary.
func ourCRDs() ([]*object.Object, error) {
	files, err := crd.All()
	if err != nil {
		return nil, fmt.Errorf("read the CRDs in the binary: %w", err)
	}
	ours := make([]*object.Object, len(files))
	for i, file := range files {
		data, err := yaml.YAMLToJSON(file)
		if err != nil {
			return nil, fmt.Errorf("read a CRD in the binary: %w", err)
		}
		if ours[i], err = object.Parse(data); err != nil {
			return nil, fmt.Errorf("read a CRD in the binary: %w", err)
		}
	}
	return ours, nil
}

func (h *Host) installCRD(ctx context.Context, definition *object.Object) error {
	name := definition.Name()
	if err := h.untilReachable(ctx, "install CRD "+name, func() error { return h.applyCRD(ctx, definition) }); err != nil {
		return err
	}
	return h.awaitCRD(ctx, name)
}

// awaitCRDs waits until the API server serves the kinds of controllers, if it is
// another Setpoint that installs them.
func (h *Host) awaitCRDs(ctx context.Context) error {
	if h.options.SkipCRDs || h.office.leads() {
		return nil
	}
	ours, err := ourCRDs()
	if err != nil {
		return err
	}
	for _, definition := range ours {
		if err := h.awaitCRD(ctx, definition.Name()); err != nil {
			return err
		}
	}
	return nil
}

func (h *Host) awaitCRD(ctx context.Context, name string) error {
	return h.untilReachable(ctx, "wait for CRD "+name, func() error { return h.established(ctx, name) })
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
			h.log.Warn("the API server cannot be reached; trying again", "step", step, "error", said)
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
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)
}

func (h *Host) applyCRD(ctx context.Context, definition *object.Object) error {
	return h.client.Patch("application/apply-patch+yaml").
		AbsPath(definitions.Path("", definition.Name())).
		Param("fieldManager", "setpoint").Param("force", "true").
		SetHeader("Accept", "application/json").
		Body(definition.JSON()).Do(ctx).Error()
}

func (h *Host) established(ctx context.Context, name string) error {
	data, err := exchange(ctx, h.client.Get().AbsPath(definitions.Path("", name)))
	if apierrors.IsNotFound(err) {
		return errNotYet
	}
	if err != nil {
		return err
	}
	var stored struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if err := json.Unmarshal(data, &stored); err != nil {
		return err
	}
	for _, condition := range stored.Status.Conditions {
		if condition.Type == "Established" && condition.Status == "True" {
			return nil
		}
	}
	return errNotYet
}
