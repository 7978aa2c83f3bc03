package apptest_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/controlplane/apptest"
)

const oneMap = "{apiVersion: v1, kind: ConfigMap, metadata: {name: mine, labels: {app: web}}, data: {rate: '1'}}"

func TestTimeoutsDescribeState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		wait func(c *apptest.Cluster)
		want []string
	}{
		"an object that differs": {
			func(c *apptest.Cluster) { apptest.Await(c, "mine", rateIs("2")) },
			[]string{`the rate is "1", not "2"`, "It was last seen as\n    apiVersion: v1\n", `      rate: "1"`},
		},
		"an object that is not there": {
			func(c *apptest.Cluster) { apptest.Await[corev1.ConfigMap](c, "yours", nil) },
			[]string{`configmaps "yours" not found`, "The configmaps in namespace test", "are kube-root-ca.crt, mine."},
		},
		"no object of the kind": {
			func(c *apptest.Cluster) { apptest.Await[corev1.Pod](c, "web", nil) },
			[]string{`pods "web" not found`, "There are no pods in namespace test"},
		},
		"an object that stays": {
			func(c *apptest.Cluster) { apptest.AwaitGone[corev1.ConfigMap](c, "mine") },
			[]string{"ConfigMap mine is still there", "It was last seen as", "name: mine"},
		},
		"a list that differs": {
			func(c *apptest.Cluster) { apptest.AwaitList(c, "app=web", count[corev1.ConfigMap](2)) },
			[]string{"there are 1, not 2", "It was last seen as", "name: mine", "---"},
		},
		"an empty list": {
			func(c *apptest.Cluster) { apptest.AwaitList(c, "app=db", count[corev1.ConfigMap](1)) },
			[]string{"there are 0, not 1", "The list was empty when it was last seen."},
		},
		"something else": {
			func(c *apptest.Cluster) { c.Eventually(func() error { return errors.New("no call yet") }) },
			[]string{"no call yet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := ""
			// A busy API server may need longer for one response than there is patience.
			for patience := soon; patience < time.Minute && (said == "" || strings.Contains(said, "context deadline")); patience *= 4 {
				said = mustFail(t, func(t testing.TB) {
					c := plane.New(t).Within(patience)
					c.Within(time.Minute).Apply(oneMap)
					apptest.Await[corev1.ConfigMap](c.Within(time.Minute), "kube-root-ca.crt", nil)
					test.wait(c)
				})
			}
			expect(t, said, append(test.want, "still not so after", "the test's namespace is test", "KUBECONFIG=/", "$SETPOINT_TEST_KUBECONFIG")...)
		})
	}
}

// count expects so many.
func count[T any](want int) func([]T) error {
	return func(all []T) error {
		if len(all) != want {
			return fmt.Errorf("there are %d, not %d", len(all), want)
		}
		return nil
	}
}

// Await fails immediately on errors that a retry cannot fix.
func TestMistakesFailImmediately(t *testing.T) {
	t.Parallel()
	type Guitar struct{ metav1.ObjectMeta }
	for name, test := range map[string]struct {
		do   func(c *apptest.Cluster)
		want string
	}{
		"a type of no kind":      {func(c *apptest.Cluster) { apptest.Await[Guitar](c, "a", nil) }, "unknown kind of apptest_test.Guitar"},
		"Unstructured alone":     {func(c *apptest.Cluster) { apptest.Get[setpoint.Unstructured](c, "a") }, "say which with Cluster.Of"},
		"a kind of no CRD":       {func(c *apptest.Cluster) { c.Apply("{apiVersion: example.com/v1, kind: Thing, metadata: {name: a}}") }, "find Thing of example.com/v1: the API server has no such kind; is its CustomResourceDefinition applied?"},
		"no manifest":            {func(c *apptest.Cluster) { c.Apply("metadata: {name: a}") }, "it has no apiVersion and kind:\nmetadata: {name: a}"},
		"no YAML":                {func(c *apptest.Cluster) { c.Apply("\tkind") }, "read a manifest: "},
		"a field twice":          {func(c *apptest.Cluster) { c.Apply("{apiVersion: v1, kind: ConfigMap, kind: Secret}") }, `already set`},
		"an object by value":     {func(c *apptest.Cluster) { c.Apply(corev1.ConfigMap{}) }, "apply a v1.ConfigMap: give a pointer to it, or a manifest"},
		"an object of no name":   {func(c *apptest.Cluster) { c.Apply(&corev1.ConfigMap{}) }, "apply ConfigMap test"},
		"a get of nothing":       {func(c *apptest.Cluster) { apptest.Get[corev1.ConfigMap](c, "kube-system/none") }, `get ConfigMap kube-system/none: configmaps "none" not found`},
		"an update of nothing":   {func(c *apptest.Cluster) { apptest.Update(c, "none", func(*corev1.Pod) {}) }, `pods "none" not found`},
		"a deletion of nothing":  {func(c *apptest.Cluster) { apptest.Delete[corev1.Pod](c, "none") }, `pods "none" not found`},
		"a selector that is not": {func(c *apptest.Cluster) { apptest.List[corev1.Pod](c, "a b") }, "list pods: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, mustFail(t, func(t testing.TB) { test.do(plane.New(t)) }), test.want)
		})
	}
}
