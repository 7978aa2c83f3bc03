// Package served describes the kinds that an API server serves, as its discovery lists them,
// and their names.
//
// It sends no requests. The dashboard's client and package operator fetch the lists and choose
// kinds by name.
package served

import (
	"slices"

	discovery "k8s.io/api/apidiscovery/v2"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// MediaType requests aggregated discovery, at /api and at /apis.
const MediaType = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList," +
	"application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"

// Kind is a kind in one version, and its names.
type Kind struct {
	object.Kind
	Singular               string
	ShortNames, Categories []string
	Verbs                  []string
}

// KindsOf returns the kinds of groups in the order of the API server: the versions that it
// prefers come first.
func KindsOf(groups *discovery.APIGroupDiscoveryList) []Kind {
	var all []Kind
	for i := range groups.Items {
		group := &groups.Items[i]
		for j := range group.Versions {
			all = append(all, kindsOfVersion(group.Name, &group.Versions[j])...)
		}
	}
	return all
}

func kindsOfVersion(group string, version *discovery.APIVersionDiscovery) []Kind {
	var all []Kind
	for _, r := range version.Resources {
		k := Kind{Singular: r.SingularResource, ShortNames: r.ShortNames, Categories: r.Categories, Verbs: r.Verbs}
		k.Group, k.Version, k.Plural = group, version.Version, r.Resource
		k.Namespaced = r.Scope == discovery.ScopeNamespace
		if r.ResponseKind != nil {
			k.Kind.Kind = r.ResponseKind.Kind
		}
		all = append(all, k)
	}
	return all
}

// Preferred returns the matching kinds, each in the first of its versions that matches.
func Preferred(all []Kind, is func(*Kind) bool) []Kind {
	var found []Kind
	for i := range all {
		same := func(k Kind) bool { return k.Group == all[i].Group && k.Plural == all[i].Plural }
		if is(&all[i]) && !slices.ContainsFunc(found, same) {
			found = append(found, all[i])
		}
	}
	return found
}

// Readable reports whether the API server stores objects of the kind; it does not store
// reviews.
func (k *Kind) Readable() bool {
	return len(k.Verbs) == 0 || slices.Contains(k.Verbs, "get") || slices.Contains(k.Verbs, "list")
}

// FullNames returns the unambiguous names of kinds.
func FullNames(all []Kind) []string {
	return lists.Map(all, func(k Kind) string { return k.Resource() })
}
