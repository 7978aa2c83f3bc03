package rollout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// inSpec reports whether a version is the one in the spec and in the ConfigMaps that have its code.
func (r *rolloutRun) inSpec(ctx context.Context, v *compile.VersionData) (bool, error) {
	now := compile.VersionData{Hooks: r.controller.Spec.Hooks, EndpointConfigs: r.controller.Spec.EndpointConfigs, ConfigMaps: v.ConfigMaps}
	if same, err := now.Equal(v); !same || err != nil {
		return false, err
	}
	now.ConfigMaps = nil // Equal hooks have their code in the same ConfigMaps.
	for _, then := range v.ConfigMaps {
		code, err := r.codeConfigMap(ctx, then.Namespace, then.Name)
		if errors.Is(err, failure.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		now.ConfigMaps = append(now.ConfigMaps, compile.CodeConfigMap{Namespace: then.Namespace, Name: then.Name, Data: code.Data})
	}
	return now.Equal(v)
}

// codeConfigMap is what the commands read of a ConfigMap with code.
type codeConfigMap struct {
	Metadata  struct{ UID, ResourceVersion string }
	Immutable bool
	Data      map[string]string
}

func (r *rolloutRun) codeConfigMap(ctx context.Context, namespace, name string) (c codeConfigMap, err error) {
	err = r.read(ctx, object.ConfigMaps, namespace, name, &c)
	return c, err
}

// read reads an object into a value. Its error is failure.ErrNotFound if there is none.
func (r *rolloutRun) read(ctx context.Context, resource object.Resource, namespace, name string, into any) error {
	text, err := r.client.API.Get(ctx, object.KindOf(resource), namespace, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read the %s %s/%s: %w", resource.Kind, namespace, name, err)
	}
	return nil
}
