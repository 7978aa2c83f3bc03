package manifest

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// rightsKinds are what the rights of a ServiceAccount consist of, in the order of their creation. Secrets
// are those that a program may fill but not create.
var rightsKinds = []string{"Namespace", "ServiceAccount", "Secret", "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}

// ApplyRights applies the ServiceAccount in a file with its roles and returns its name. It applies nothing
// else of the file, such as the Deployment of the pods that use the ServiceAccount. Shared is the cluster if
// it is not one of our own.
func ApplyRights(ctx context.Context, config *rest.Config, shared *Shared, file string) (types.NamespacedName, error) {
	var to target = shared
	if shared == nil {
		own, err := connect(config)
		if err != nil {
			return types.NamespacedName{}, err
		}
		to = own
	}
	documents, err := Read([]string{file})
	if err == nil {
		err = to.complete(documents)
	}
	if err != nil {
		return types.NamespacedName{}, err
	}
	needed := slices.DeleteFunc(documents, func(d Document) bool { return !slices.Contains(rightsKinds, d.Object.GetKind()) })
	slices.SortStableFunc(needed, func(a, b Document) int {
		return slices.Index(rightsKinds, a.Object.GetKind()) - slices.Index(rightsKinds, b.Object.GetKind())
	})
	account, err := accountIn(file, needed)
	if err != nil {
		return account, err
	}
	_, err = newSet(to, "", nil).applyAll(ctx, needed)
	return account, err
}

// accountIn returns the ServiceAccount among manifests.
func accountIn(file string, all []Document) (types.NamespacedName, error) {
	accounts := lists.Filter(all, func(d Document) bool { return d.Object.GetKind() == "ServiceAccount" })
	if len(accounts) != 1 {
		return types.NamespacedName{}, fmt.Errorf("%s: has %d ServiceAccounts, not one", shorten(file), len(accounts))
	}
	name := types.NamespacedName{Namespace: accounts[0].Object.GetNamespace(), Name: accounts[0].Object.GetName()}
	if name.Namespace == "" {
		return name, fmt.Errorf("%s: the ServiceAccount %s has no namespace", shorten(file), name.Name)
	}
	return name, nil
}
