package related

import (
	"cmp"
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
)

// What rules read is known before a watch opens, so that forbidden rules open none.
func TestReadsOf(t *testing.T) {
	for name, c := range map[string]struct {
		rule hook.RelatedRule
		want string
	}{
		"names in a namespace":      {of(secrets, in("vault"), named("db", "ca")), `secrets.v1 "vault" [ca db]; `},
		"names anywhere":            {of(secrets, named("db")), `secrets.v1 "" []; `},
		"all of a namespace":        {of(secrets, in("vault")), `secrets.v1 "vault" []; `},
		"all":                       {of(secrets), `secrets.v1 "" []; `},
		"in namespaces by labels":   {of(configMaps, near("team=a")), `namespaces.v1 "" []; configmaps.v1 "" []; `},
		"cluster-scoped names":      {of(namespaces, named("a")), `namespaces.v1 "" [a]; `},
		"by labels, in a namespace": {of(configMaps, in("a"), labelled("app=x")), `configmaps.v1 "a" []; `},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, v2Cluster)
			describe := func(reads []Read) (text string) {
				for _, r := range reads {
					text += fmt.Sprintf("%s %q %v; ", r.Resource, r.Namespace, r.Names)
				}
				return text
			}
			reads, err := d.ReadsOf(t.Context(), keyFrom("p"), []hook.RelatedRule{c.rule})
			if got := describe(reads); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
			if open := d.Watches(); len(open) > 0 {
				t.Errorf("opened %v", open)
			}
			d.set("p", c.rule)
			if got := describe(d.Reads(keyFrom("p"))); got != c.want {
				t.Errorf("once set: got %s, want %s", got, c.want)
			}
		})
	}
}

func TestNamesAreInTheOrderOfTheWire(t *testing.T) {
	parts := []string{"a", "a-", "a-b", "a0", "a.b", "ab", "b", "team", "team-1"}
	for _, spaceA := range parts {
		for _, spaceB := range parts {
			for _, nameA := range parts {
				for _, nameB := range parts {
					want := cmp.Compare(spaceA+"/"+nameA, spaceB+"/"+nameB)
					if got := compareNames(spaceA, nameA, spaceB, nameB); got != want {
						t.Errorf("%s/%s and %s/%s: %d, want %d", spaceA, nameA, spaceB, nameB, got, want)
					}
				}
			}
		}
	}
}
