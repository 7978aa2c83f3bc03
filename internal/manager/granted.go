package manager

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Granted returns the roles that are bound to a ServiceAccount itself. Those that an aggregated
// ClusterRole consists of take its place. What groups of all ServiceAccounts have is left out.
func (p *ObjectPermissions) Granted(ctx context.Context, account identity.Account) ([]rbac.Granted, error) {
	clusterRoles, err := listRBAC[rbacv1.ClusterRole](ctx, p, "clusterroles", "ClusterRole")
	if err != nil {
		return nil, err
	}
	roles, err := listRBAC[rbacv1.Role](ctx, p, "roles", "Role")
	if err != nil {
		return nil, err
	}
	clusterBindings, err := listRBAC[rbacv1.ClusterRoleBinding](ctx, p, "clusterrolebindings", "ClusterRoleBinding")
	if err != nil {
		return nil, err
	}
	bindings, err := listRBAC[rbacv1.RoleBinding](ctx, p, "rolebindings", "RoleBinding")
	if err != nil {
		return nil, err
	}
	var all []rbac.Granted
	for _, b := range clusterBindings {
		if binds(b.Subjects, account, "") {
			all = append(all, grantedClusterRoles(clusterRoles, b.RoleRef.Name, "")...)
		}
	}
	for _, b := range bindings {
		switch {
		case !binds(b.Subjects, account, b.Namespace):
		case b.RoleRef.Kind == "ClusterRole":
			all = append(all, grantedClusterRoles(clusterRoles, b.RoleRef.Name, b.Namespace)...)
		default:
			i := slices.IndexFunc(roles, func(r rbacv1.Role) bool { return r.Namespace == b.Namespace && r.Name == b.RoleRef.Name })
			if i >= 0 {
				all = append(all, rbac.Granted{Kind: "Role", Name: roles[i].Name, Namespace: b.Namespace, Labels: roles[i].Labels,
					Rules: roles[i].Rules})
			}
		}
	}
	return all, nil
}

func listRBAC[T any](ctx context.Context, p *ObjectPermissions, plural, kind string) ([]T, error) {
	resource := object.Resource{Group: rbacv1.GroupName, Version: "v1", Plural: plural, Kind: kind}
	listed, err := apply.New(p.client, apply.Options{}).List(ctx, resource, "", "")
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	all := make([]T, len(listed))
	for i, o := range listed {
		if err := json.Unmarshal(o.JSON(), &all[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", o.Ref(), err)
		}
	}
	return all, nil
}

// binds reports whether a ServiceAccount is a subject of a binding in a namespace.
func binds(subjects []rbacv1.Subject, account identity.Account, namespace string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		if s.Kind == rbacv1.UserKind {
			return s.Name == account.UserFor("")
		}
		in := s.Namespace
		if in == "" {
			in = namespace
		}
		return s.Kind == rbacv1.ServiceAccountKind && s.Name == account.Name && in == account.Namespace
	})
}

// grantedClusterRoles returns a ClusterRole, or those that it aggregates.
func grantedClusterRoles(all []rbacv1.ClusterRole, name, namespace string) []rbac.Granted {
	i := slices.IndexFunc(all, func(r rbacv1.ClusterRole) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	some := []rbacv1.ClusterRole{all[i]}
	if rule := all[i].AggregationRule; rule != nil {
		some = slices.DeleteFunc(slices.Clone(all), func(r rbacv1.ClusterRole) bool {
			return !slices.ContainsFunc(rule.ClusterRoleSelectors, func(s metav1.LabelSelector) bool {
				selector, err := metav1.LabelSelectorAsSelector(&s)
				return err == nil && selector.Matches(labels.Set(r.Labels))
			})
		})
	}
	var granted []rbac.Granted
	for _, r := range some {
		granted = append(granted, rbac.Granted{Kind: "ClusterRole", Name: r.Name, Namespace: namespace, Labels: r.Labels, Rules: r.Rules})
	}
	return granted
}
