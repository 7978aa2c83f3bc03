package apptest_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/controlplane/apptest"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func TestObjectsAreReadAndWritten(t *testing.T) {
	t.Parallel()
	c := plane.New(t)
	given := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "mine", Labels: map[string]string{"app": "web"}}, Data: map[string]string{"a": "1", "b": "2"}}
	c.Apply(given, `
apiVersion: v1
kind: ConfigMap
metadata: {name: other, labels: {app: web}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: third, namespace: kube-public}
`)
	if given.UID == "" || given.Namespace != c.Namespace() {
		t.Errorf("what was applied is not as the API server has it: %+v", given.ObjectMeta)
	}
	updated := apptest.Update(c, "mine", func(cm *corev1.ConfigMap) {
		delete(cm.Data, "a")
		cm.Data["c"] = "3"
	})
	if got := apptest.Get[corev1.ConfigMap](c, "mine"); fmt.Sprint(got.Data, updated.Data) != "map[b:2 c:3] map[b:2 c:3]" {
		t.Errorf("updated to %v, is %v", updated.Data, got.Data)
	}
	if got := apptest.List[corev1.ConfigMap](c, "app=web"); len(got) != 2 {
		t.Errorf("listed %d", len(got))
	}
	apptest.Get[corev1.ConfigMap](c, "kube-public/third")
	apptest.Delete[corev1.ConfigMap](c, "kube-public/third")
	apptest.AwaitGone[corev1.ConfigMap](c, "kube-public/third")
	// What was applied is applied again, changed.
	given.Data = map[string]string{"b": "4"}
	c.Apply(given)
	if got := apptest.Get[corev1.ConfigMap](c, "mine").Data; fmt.Sprint(got) != "map[b:4 c:3]" {
		t.Errorf("applied again, it has %v", got)
	}
}

// The status is written where it can be: here, where a kubelet would.
func TestStatusIsWritten(t *testing.T) {
	t.Parallel()
	c := plane.New(t)
	c.Apply("{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {nodeName: nowhere, containers: [{name: a, image: b}]}}")
	apptest.Update(c, "web", func(p *corev1.Pod) {
		p.Status.Message = "played"
		p.Labels = map[string]string{"a": "b"}
	})
	if got := apptest.Get[corev1.Pod](c, "web"); got.Status.Message != "played" || got.Labels["a"] != "b" {
		t.Errorf("the pod is %+v with the labels %v", got.Status, got.Labels)
	}
}

// An edit that comes between is not lost.
func TestConcurrentUpdates(t *testing.T) {
	t.Parallel()
	c := plane.New(t)
	c.Apply(oneMap)
	calls := 0
	apptest.Update(c, "mine", func(cm *corev1.ConfigMap) {
		calls++
		if calls == 1 {
			apptest.Update(c, "mine", func(cm *corev1.ConfigMap) { cm.Data["rate"] = "2" })
		}
		cm.Data["rate"] += "!"
	})
	if got := apptest.Get[corev1.ConfigMap](c, "mine").Data["rate"]; got != "2!" || calls != 2 {
		t.Errorf("the rate is %q after %d calls", got, calls)
	}
}

const thingCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.apptest.example.com}
spec:
  group: apptest.example.com
  scope: Cluster
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// A third-party kind without a Go type is served as soon as its CRD is applied.
func TestUntypedKinds(t *testing.T) {
	t.Parallel()
	mustPass(t, func(t testing.TB) {
		c := plane.New(t)
		c.Apply(thingCRD, "{apiVersion: apptest.example.com/v1, kind: Thing, metadata: {name: one, finalizers: [example.com/kept]}, spec: {size: 3}}")
		things := c.Of("apptest.example.com/v1", "Thing")
		apptest.Update(things, "one", func(u *setpoint.Unstructured) { u.Object["status"] = map[string]any{"size": int64(3)} })
		apptest.Await(things, "one", func(u *setpoint.Unstructured) error {
			if status, _ := u.Object["status"].(map[string]any); status["size"] != int64(3) {
				return fmt.Errorf("the size is %v", status["size"])
			}
			return nil
		})
	})
	// It lives in no namespace, but goes with the test.
	c := plane.New(t).Of("apptest.example.com/v1", "Thing")
	if left := apptest.List[setpoint.Unstructured](c, ""); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}

func TestConfigForOtherClients(t *testing.T) {
	t.Parallel()
	c := plane.New(t)
	config := c.Config()
	client := must.Get(rest.HTTPClientFor(config)).In(t)
	response := must.Get(client.Get(config.Host + "/api/v1/namespaces/" + c.Namespace())).In(t)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("the API server answers %s", response.Status)
	}
	if c.Kubeconfig() == "" {
		t.Error("there is no kubeconfig")
	}
}

// Subtests share an app, and each has its own patience and its own failures.
func TestSubtestsShareAnApp(t *testing.T) {
	t.Parallel()
	address, _ := exchange(t)
	cluster := plane.Start(t, newApp(address))
	for _, currency := range []string{"USD", "CHF"} {
		t.Run(currency, func(t *testing.T) {
			t.Parallel()
			c := cluster.On(t)
			name := strings.ToLower(currency)
			c.Apply(newRate(name, currency))
			apptest.Await(c, name, func(r *ExchangeRate) error {
				if r.Status.Rate == "" {
					return errors.New("there is no rate")
				}
				return nil
			})
		})
	}
}
