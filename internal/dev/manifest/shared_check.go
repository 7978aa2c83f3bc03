package manifest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Check reads manifests and returns why they must not be applied: objects of others, missing rights. It writes
// nothing. The documents are complete.
func (s *Shared) Check(ctx context.Context, config *rest.Config, paths []string, more rbac.Permissions) ([]Document, error) {
	documents, err := Read(paths)
	if err == nil {
		err = s.complete(documents)
	}
	if err == nil {
		err = checkRights(ctx, config, append(s.rights(documents), more...))
	}
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, d := range documents {
		if _, _, err := s.decide(ctx, d.Object); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d, RefOf(d.Object), err))
		}
	}
	return documents, errors.Join(problems...)
}

// rights returns what the user needs to apply documents, run the controllers among them, and remove all of
// it again.
func (s *Shared) rights(all []Document) rbac.Permissions {
	var needed rbac.Permissions
	definitions, _ := ownDefinitions() // They are part of the program, and read again when they are installed.
	definitions = append(definitions, all...)
	for _, d := range all {
		kind, known := s.kindOf(d.Object, definitions)
		if !known {
			continue // Applying it says so.
		}
		version := d.Object.GroupVersionKind().Version
		resource := object.Resource{Group: kind.Group, Version: version, Plural: kind.Plural, Namespaced: kind.Namespaced}
		needed = append(needed, rbac.On(resource, "", d.Object.GetNamespace(), "get", "create", "patch", "delete")...)
		if slices.Contains(ControllerGroups, kind.Group) {
			needed = append(needed, rbac.On(resource, "", "", "list", "watch", "update")...)
			needed = append(needed, rbac.On(resource, "status", "", "patch")...)
			needed = append(needed, rbac.On(crds.Resource, "", "", "get", "list", "watch")...)
		}
	}
	return needed
}

// checkRights returns all rights that the user lacks in one error.
func checkRights(ctx context.Context, config *rest.Config, needed rbac.Permissions) error {
	client, err := request.NewClient(config)
	if err != nil {
		return err
	}
	missing, err := rbac.Missing(ctx, client, needed)
	if err == nil && len(missing) > 0 {
		err = errors.New("this user may not\n  " + strings.ReplaceAll(missing.Summary(), "; ", "\n  "))
	}
	return err
}
