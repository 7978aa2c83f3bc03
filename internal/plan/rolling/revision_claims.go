package rolling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// maxClaims is the maximum size of the claims in bytes. The annotations of an object may have 256
// KiB in total.
const maxClaims = 240 << 10

// Claims are the children that still follow a previous revision.
type Claims map[plan.Key]bool

// Has reports whether a child still follows the revision.
func (c Claims) Has(child *object.Object) bool { return c[plan.KeyOf(child)] }

// claimsList is the stored form of claims: names by namespace by kind, such as
// {"Pod":{"shop":["web-1","web-2"]}}. There may be thousands of children.
type claimsList map[string]map[string][]string

func (c Claims) encode() (string, error) {
	list := claimsList{}
	for _, child := range c.sorted() {
		kind := schema.GroupKind(child.Kind).String()
		if list[kind] == nil {
			list[kind] = map[string][]string{}
		}
		list[kind][child.Namespace] = append(list[kind][child.Namespace], child.Name)
	}
	text, err := json.Marshal(list)
	if err == nil && len(text) > maxClaims {
		err = fmt.Errorf("the names of the %d children to update take %d bytes, more than the %d that fit into an annotation; "+
			"use fewer children per parent, or the update method InPlace or Recreate", len(c), len(text), maxClaims)
	}
	return string(text), err
}

// sorted makes the stored form canonical, in which JSON orders kinds and namespaces.
func (c Claims) sorted() []plan.Key {
	return slices.SortedFunc(maps.Keys(c), func(a, b plan.Key) int { return cmp.Compare(a.Name, b.Name) })
}

// readClaims reads claims. It drops kinds that are no longer rolled out.
func readClaims(text string, rules plan.Rules) (Claims, error) {
	claims := Claims{}
	if text == "" {
		return claims, nil
	}
	var list claimsList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, err
	}
	for kind, namespaces := range list {
		of := object.GroupKind(schema.ParseGroupKind(kind))
		if rule, _ := rules.For(of); !rule.Method.Rolling() {
			continue
		}
		for namespace, names := range namespaces {
			for _, name := range names {
				claims[plan.Key{Kind: of, Namespace: namespace, Name: name}] = true
			}
		}
	}
	return claims, nil
}
