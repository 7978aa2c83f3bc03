package inventory

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

func TestNameOf(t *testing.T) {
	for path, want := range map[string]string{
		"/home/a/tenant.yaml":             "tenant",
		"/home/a/My Operator_2/":          "my-operator-2",
		"/home/a/app.py":                  "app",
		"/":                               "run",
		"/ü":                              "run",
		"/" + strings.Repeat("a", 50):     strings.Repeat("a", maxName),
		"/" + strings.Repeat("a-", 50):    strings.Repeat("a-", maxName/2-1) + "a",
		"/home/a/immortalcontainer.d.yml": "immortalcontainer-d",
	} {
		if got := NameOf(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// An object belongs to the run if it is listed, has the run's label and, once it is recorded, the UID.
func TestOwns(t *testing.T) {
	listed := Entry{APIVersion: "v1", Kind: "ConfigMap", Namespace: "web", Name: "a"}
	i := &Inventory{
		Entries: []Entry{listed, {APIVersion: "v1", Kind: "ConfigMap", Namespace: "web", Name: "b", UID: "2"}},
		stored:  &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: "run"}},
	}
	for name, c := range map[string]struct {
		name, uid, label string
		want             bool
	}{
		"created, then killed": {"a", "1", "run", true},
		"recorded":             {"b", "2", "run", true},
		"replaced":             {"b", "3", "run", false},
		"of another run":       {"a", "1", "other", false},
		"without a label":      {"a", "1", "", false},
		"not listed":           {"c", "1", "run", false},
	} {
		o := &metav1.ObjectMeta{UID: types.UID(c.uid), Labels: map[string]string{setpoint.LabelDevRun: c.label}}
		e := listed
		e.Name = c.name
		if got := i.Owns(e, o); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	i.Created(listed, "1")
	if i.Entries[0].UID != "1" || !i.changed {
		t.Error("the UID is not recorded")
	}
	i.Forget(listed)
	if len(i.Entries) != 1 || i.Entries[0].Name != "b" {
		t.Errorf("%+v", i.Entries)
	}
}
