package manager

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/util/wait"
	apiversion "k8s.io/apimachinery/pkg/version"

	"github.com/setpoint-dev/setpoint/internal/request"
)

// oldestKubernetes is the oldest supported version: `make test-oldest-kubernetes` runs it.
const oldestKubernetes = "1.30"

// checkKubernetes waits for the API server and refuses versions that are too old. A version
// that cannot be read is not refused.
func (m *Manager) checkKubernetes(ctx context.Context) error {
	served := m.awaitVersion(ctx)
	if ctx.Err() == nil {
		m.log.Info("connected to the API server", "kubernetes", cmp.Or(served.GitVersion, "unknown"))
	}
	return checkVersion(served.GitVersion)
}

// awaitVersion returns the version of the API server, once it responds.
func (m *Manager) awaitVersion(ctx context.Context) (served apiversion.Info) {
	logged := ""
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		data, err := request.Do(ctx, m.client.Get().AbsPath("/version"))
		if err == nil {
			return true, json.Unmarshal(data, &served)
		}
		if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Code < 500 {
			return false, err
		}
		if err.Error() != logged && ctx.Err() == nil {
			logged = err.Error()
			m.log.Warn("API server does not respond; retrying", "error", logged)
		}
		return false, nil
	})
	if err != nil && ctx.Err() == nil {
		m.log.Warn("version of the API server not readable", "error", err.Error())
	}
	return served
}

// checkVersion refuses versions that are too old. Those of development builds, 0.0.0, are
// allowed, and so are those that are no semantic versions.
func checkVersion(served string) error {
	found, err := version.ParseGeneric(served)
	if err == nil && found.Major() > 0 && found.LessThan(version.MustParseGeneric(oldestKubernetes)) {
		return fmt.Errorf("the cluster runs Kubernetes %s, and Setpoint supports %s and newer: upgrade the cluster, or use an older "+
			"Setpoint", served, oldestKubernetes)
	}
	return nil
}
