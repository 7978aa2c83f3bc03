package operator

import (
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/served"
)

func servedKinds() []served.Kind {
	kind := func(group, version, plural, name string, more served.Kind) served.Kind {
		more.Kind = object.Kind{Group: group, Version: version, Plural: plural, Kind: name}
		more.Singular = strings.ToLower(name)
		if more.Verbs == nil {
			more.Verbs = []string{"get", "list", "watch"}
		}
		return more
	}
	return []served.Kind{
		kind("", "v1", "pods", "Pod", served.Kind{ShortNames: []string{"po"}, Categories: []string{"all"}}),
		kind("", "v1", "events", "Event", served.Kind{ShortNames: []string{"ev"}}),
		kind("events.k8s.io", "v1", "events", "Event", served.Kind{ShortNames: []string{"ev"}}),
		kind("metrics.k8s.io", "v1beta1", "pods", "PodMetrics", served.Kind{}),
		kind("authorization.k8s.io", "v1", "reviews", "Review", served.Kind{Verbs: []string{"create"}}),
		kind("example.com", "v2", "guitars", "Guitar", served.Kind{ShortNames: []string{"gt"}, Categories: []string{"music"}}),
		kind("example.com", "v1", "guitars", "Guitar", served.Kind{ShortNames: []string{"gt"}, Categories: []string{"music"}}),
		kind("example.com", "v1", "drums", "Drum", served.Kind{Categories: []string{"music"}}),
		kind("example.org", "v1", "guitars", "Guitar", served.Kind{}),
	}
}

func TestSelectors(t *testing.T) {
	group := func(name string) *string { return &name }
	for _, c := range []struct {
		selector  Selector
		want, err string
	}{
		{Selector{Name: "pods"}, "v1/pods", ""},
		{Selector{Name: "po"}, "v1/pods", ""},
		{Selector{Name: "Pod"}, "v1/pods", ""},
		{Selector{ShortName: "gt"}, "example.com/v2/guitars", ""},
		{Selector{Name: "guitars"}, "", "guitars is ambiguous: add the group of one of guitars.example.com, guitars.example.org"},
		{Selector{Name: "guitars", Group: group("example.org")}, "example.org/v1/guitars", ""},
		{Selector{Kind: "Guitar", Group: group("example.com")}, "example.com/v2/guitars", ""},
		{Selector{Plural: "guitars", Group: group("example.com"), Version: "v1"}, "example.com/v1/guitars", ""},
		{Selector{Singular: "drum"}, "example.com/v1/drums", ""},
		{Selector{Name: "drum", Category: "all"}, "", ""},
		{Selector{Category: "music"}, "example.com/v2/guitars example.com/v1/drums", ""},
		{Selector{Any: true, Group: group("")}, "v1/pods", ""},
		{Selector{Any: true, Group: group("example.com")}, "example.com/v2/guitars example.com/v1/drums", ""},
		{Selector{Name: "events"}, "v1/events", ""},
		{Selector{Name: "reviews"}, "", ""},
		{Selector{Name: "pods", Group: group("metrics.k8s.io")}, "metrics.k8s.io/v1beta1/pods", ""},
	} {
		found, err := c.selector.find(servedKinds())
		names := lists.Map(found, func(k served.Kind) string { return k.APIVersion() + "/" + k.Plural })
		if got := strings.Join(names, " "); got != c.want || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
			t.Errorf("%s: %s, %v", &c.selector, got, err)
		}
	}
}

func TestExactSelectors(t *testing.T) {
	core, other := "", "example.com"
	for _, c := range []struct {
		selector Selector
		want     string
	}{
		{Selector{Group: &core, Version: "v1", Name: "pods"}, "v1 pods"},
		{Selector{Group: &other, Version: "v2", Plural: "guitars"}, "example.com/v2 guitars"},
		{Selector{Version: "v1", Name: "pods"}, " "},
		{Selector{Group: &other, Name: "guitars"}, " "},
		{Selector{Group: &other, Version: "v1", Category: "music"}, " "},
		{Selector{Group: &other, Version: "v1", Plural: "guitars", Kind: "Guitar"}, " "},
	} {
		if apiVersion, plural, _ := c.selector.exact(); apiVersion+" "+plural != c.want {
			t.Errorf("%s: %s %s", &c.selector, apiVersion, plural)
		}
	}
}
