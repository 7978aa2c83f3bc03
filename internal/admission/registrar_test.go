package admission_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
)

const (
	mutatingPath   = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
	validatingPath = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
)

// registrarTest is a Registrar at work, and the Keeper whose bundle it registers.
type registrarTest struct {
	*register.Registrar

	t       *testing.T
	cluster *fakeAPIServer
	keeper  *certificateTest
}

func registrar(t *testing.T, c *fakeAPIServer) *registrarTest {
	t.Helper()
	k := newTestManager(t, certs.Options{})
	run(t, k.Renew)
	return &registrarTest{register.New(register.Options{
		Registration: register.Registration{
			Address:   register.Address{Service: register.ServiceRef{Namespace: "ops", Name: "setpoint"}},
			Namespace: "ops", Group: "setpoint",
		},
		Certificates: k.Manager, Store: c.store(), Client: c.client(), Clock: k.clock, Log: slog.New(slog.DiscardHandler),
	}), t, c, k}
}

// program has a webhook that mutates and one that validates.
func program(name string) *admission.Program {
	rules := []admission.Rule{{Version: "v1", Resources: []string{"pods"}, Operations: []hook.Operation{hook.OperationCreate}}}
	return &admission.Program{Name: name, Configuration: name, Webhooks: []admission.Webhook{
		{Name: "label", Mutates: true, Rules: rules, Timeout: 3 * time.Second},
		{Name: "check", Rules: rules, Timeout: 3 * time.Second},
	}}
}

// registered runs it until the programs are registered.
func (r *registrarTest) registered(names ...string) (stop func()) {
	r.t.Helper()
	r.set(names...)
	stop = run(r.t, r.Run)
	for _, name := range names {
		must.Eventually(r.t, name+" is registered", func() bool { return r.Health(name).Registered })
	}
	return stop
}

func (r *registrarTest) set(names ...string) {
	programs := lists.Map(names, program)
	r.Set(programs)
}

// stored are the configurations there are.
func (r *registrarTest) stored() (paths []string) {
	r.cluster.with(func() {
		for path := range r.cluster.objects {
			paths = append(paths, path)
		}
	})
	slices.Sort(paths)
	return paths
}

// expectNoWrites says that nothing is written while time passes and it is woken.
func (r *registrarTest) expectNoWrites() {
	r.t.Helper()
	before := r.cluster.written()
	for range 3 {
		must.Eventually(r.t, "it waits", r.keeper.clock.HasWaiters)
		r.keeper.clock.Step(11 * time.Minute)
	}
	if after := r.cluster.written(); len(after) != len(before) {
		r.t.Errorf("wrote %v", after[len(before):])
	}
}

func TestRegistrarKeepsConfigurations(t *testing.T) {
	c := newFakeAPIServer(t)
	// Of a former run, and of another Setpoint.
	for name, group := range map[string]string{"former": "setpoint", "another": "watchers"} {
		c.create(mutatingPath+"/"+name, fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":%q,"labels":{"setpoint.dev/admission":%q}}}`, name, group))
	}
	r := registrar(t, c)
	r.registered("a", "b")
	want := []string{mutatingPath + "/a", mutatingPath + "/another", mutatingPath + "/b", validatingPath + "/a", validatingPath + "/b"}
	must.Eventually(t, "the former one is removed", func() bool { return slices.Equal(r.stored(), want) })
	r.expectNoWrites()

	path := mutatingPath + "/a"
	for name, do := range map[string]func(){
		"deletion": func() { c.remove(path) },
		"bundle": func() {
			c.edit(path, func(o *unstructured.Unstructured) { set(o, "Zm9yZWlnbg==", "clientConfig", "caBundle") })
		},
		"policy": func() {
			c.edit(path, func(o *unstructured.Unstructured) {
				set(o, "Fail", "failurePolicy")
				set(o, int64(30), "timeoutSeconds")
			})
		},
		"labels": func() { c.edit(path, func(o *unstructured.Unstructured) { o.SetLabels(nil) }) },
		"webhooks": func() {
			c.edit(path, func(o *unstructured.Unstructured) { delete(o.Object, "webhooks") })
		},
	} {
		before := withoutVersion(c.get(path))
		do()
		must.Eventually(t, "it is undone: "+name, func() bool {
			now := c.get(path)
			return now != nil && withoutVersion(now) == before
		})
		must.Eventually(t, "all is well", func() bool { return r.Health("a").Registered && r.Health("a").Problem == "" })
		r.expectNoWrites() // The API server limits clients that send many of these.
	}

	c.edit(path, func(o *unstructured.Unstructured) {
		all := o.GetAnnotations()
		all["theirs"] = "stays"
		o.SetAnnotations(all)
	})
	r.set("a")
	must.Eventually(t, "b is removed", func() bool { return len(r.stored()) == 3 })
	if c.get(path).GetAnnotations()["theirs"] != "stays" {
		t.Error("an annotation was removed")
	}
	r.expectNoWrites()
}

// set sets a field of the first webhook.
func set(o *unstructured.Unstructured, value any, path ...string) {
	webhooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
	_ = unstructured.SetNestedField(webhooks[0].(map[string]any), value, path...)
	_ = unstructured.SetNestedSlice(o.Object, webhooks, "webhooks")
}

func withoutVersion(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	o.SetResourceVersion("")
	o.SetUID("")
	text, _ := o.MarshalJSON()
	return string(text)
}

// Nothing is removed before it is known what is wanted.
func TestRegistrarWaitsForPrograms(t *testing.T) {
	c := newFakeAPIServer(t)
	first := registrar(t, c)
	stop := first.registered("a")
	stop()
	if h := first.Health("a"); h.Registered {
		t.Errorf("knows %+v while it does not lead", h)
	}
	second := registrar(t, c)
	run(t, second.Run)
	second.expectNoWrites()
	if n := len(second.stored()); n != 2 {
		t.Errorf("left %v", second.stored())
	}
}

func TestRegistrarLeavesForeignConfigurations(t *testing.T) {
	c := newFakeAPIServer(t)
	path := validatingPath + "/a"
	c.create(path, `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"a"}}`)
	r := registrar(t, c)
	r.set("a")
	run(t, r.Run)
	must.Eventually(t, "it is said", func() bool {
		h := r.Health("a")
		return !h.Registered && strings.Contains(h.Problem, "ValidatingWebhookConfiguration a does not belong to this Setpoint")
	})
	if c.get(path).GetLabels() != nil {
		t.Error("it was written over")
	}
	c.remove(path)
	must.Eventually(t, "it is registered", func() bool {
		r.keeper.clock.Step(time.Minute)
		return r.Health("a").Registered
	})
}

// If another client keeps changing a configuration, the registrar backs off and reports it.
func TestRegistrarBacksOffOnConflicts(t *testing.T) {
	c := newFakeAPIServer(t)
	r := registrar(t, c)
	r.registered("a")
	path := mutatingPath + "/a"
	theirs := func() bool {
		return strings.Contains(withoutVersion(c.get(path)), `"timeoutSeconds":30`)
	}
	for range 4 {
		c.edit(path, func(o *unstructured.Unstructured) { set(o, int64(30), "timeoutSeconds") })
		must.Eventually(t, "it is undone at once", func() bool { return !theirs() && r.Health("a").Registered })
	}
	c.edit(path, func(o *unstructured.Unstructured) { set(o, int64(30), "timeoutSeconds") })
	must.Eventually(t, "it is said", func() bool {
		h := r.Health("a")
		return strings.Contains(h.Problem, "another client keeps changing")
	})
	if !theirs() {
		t.Error("it was undone at once")
	}
	must.Eventually(t, "it is undone later", func() bool { r.keeper.clock.Step(time.Second); return !theirs() })
	must.Eventually(t, "it is forgiven", func() bool {
		r.keeper.clock.Step(time.Minute)
		return r.Health("a").Problem == "" && r.Health("a").Registered
	})
}

func TestRegistrarForbidden(t *testing.T) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			c := newFakeAPIServer(t)
			c.refuse = func(r *http.Request) error {
				if r.Method == method && strings.HasPrefix(r.URL.Path, validatingPath) {
					return forbidden("validatingwebhookconfigurations")
				}
				return nil
			}
			r := registrar(t, c)
			r.set("a")
			run(t, r.Run)
			must.Eventually(t, "it is said", func() bool {
				h := r.Health("a")
				return strings.Contains(h.Problem, "forbidden: no access") && !h.Registered
			})
			c.with(func() { c.refuse = nil })
			must.Eventually(t, "it works", func() bool {
				r.keeper.clock.Step(time.Minute)
				return r.Health("a").Registered
			})
		})
	}
}

// A CA is followed through all the pieces: it joins the bundle, the configurations
// carry it, and then it signs.
func TestRegistrarPropagatesBundles(t *testing.T) {
	c := newFakeAPIServer(t)
	r := registrar(t, c)
	r.registered("a", "b")
	first := r.keeper.serial()
	everywhere := func() bool {
		bundle := base64.StdEncoding.EncodeToString(r.keeper.Bundle())
		return !slices.ContainsFunc(r.stored(), func(path string) bool { return !strings.Contains(withoutVersion(c.get(path)), bundle) })
	}
	r.keeper.clock.Step(500 * day)
	must.Eventually(t, "the new CA is carried", func() bool { return r.keeper.authorities() == 2 && everywhere() })
	both, renewed := r.keeper.Bundle(), r.keeper.serial()
	if renewed == first {
		t.Error("the certificate that had expired was not renewed")
	}
	must.Eventually(t, "the new CA signs", func() bool {
		r.keeper.clock.Step(time.Minute)
		return r.keeper.serial() != renewed
	})
	if !bytes.Equal(both, r.keeper.Bundle()) || !r.keeper.isTrusted() {
		t.Error("the bundle changed as well")
	}
	r.expectNoWrites()
	r.keeper.clock.Step(300 * day)
	must.Eventually(t, "the old CA leaves", func() bool { return r.keeper.authorities() == 1 && everywhere() })
}

// newWebhook handles a probe as a Server does, through the API server.
func newWebhook(w http.ResponseWriter, _ map[string]string) error {
	w.Header().Set("Warning", `299 - "setpoint received the request"`)
	return nil
}

func TestProbe(t *testing.T) {
	unreached := func(says string) func(http.ResponseWriter, map[string]string) error {
		return func(http.ResponseWriter, map[string]string) error {
			return apierrors.NewInternalError(errors.New(says))
		}
	}
	c := newFakeAPIServer(t)
	r := registrar(t, c)
	c.lease = func(w http.ResponseWriter, labels map[string]string) error {
		if labels["setpoint.dev/probe"] != "a" {
			t.Errorf("labelled %v", labels)
		}
		return newWebhook(w, labels)
	}
	r.registered("a")
	must.Eventually(t, "it is reachable", func() bool { return r.Health("a").Reachability == register.Reachable })
	for _, step := range []struct {
		lease   func(http.ResponseWriter, map[string]string) error
		reach   register.Reachability
		message string
	}{
		{unreached(`failed calling webhook "probe.self.a.setpoint.dev": failed to call webhook: Post "https://setpoint.ops.svc:443/probe/a?timeout=5s": dial tcp 10.0.0.7:443: connect: connection refused`), register.Unreachable, "dial tcp 10.0.0.7:443: connect: connection refused"},
		{nil, register.Unreachable, "the API server does not call the registered webhooks"},
		{func(http.ResponseWriter, map[string]string) error { return forbidden("leases") }, register.ReachabilityUnknown, "probe in namespace ops: leases is forbidden: no access"},
		{newWebhook, register.Reachable, ""},
	} {
		c.with(func() { c.lease = step.lease })
		must.Eventually(t, "it is "+string(step.reach)+": "+step.message, func() bool {
			r.keeper.clock.Step(5 * time.Second)
			h := r.Health("a")
			return h.Reachability == step.reach && h.ReachabilityMessage == step.message && h.Registered
		})
	}
}

// One failed probe does not make a webhook unreachable, and an unreachable API server
// does not count as a failed probe.
func TestProbeFailureThreshold(t *testing.T) {
	c := newFakeAPIServer(t)
	r := registrar(t, c)
	var tries int
	c.lease = newWebhook
	r.registered("a")
	must.Eventually(t, "it is reachable", func() bool { return r.Health("a").Reachability == register.Reachable })
	c.with(func() {
		c.lease = func(w http.ResponseWriter, labels map[string]string) error {
			tries++
			if tries%3 != 0 {
				return apierrors.NewInternalError(errors.New(`failed calling webhook "probe.self.a.setpoint.dev": no`))
			}
			return newWebhook(w, labels)
		}
	})
	must.Eventually(t, "it was tried", func() bool {
		r.keeper.clock.Step(5 * time.Second)
		if h := r.Health("a"); h.Reachability != register.Reachable {
			t.Fatalf("became %+v", h)
		}
		done := false
		c.with(func() { done = tries > 10 })
		return done
	})
}

func TestUnregister(t *testing.T) {
	c := newFakeAPIServer(t)
	r := registrar(t, c)
	stop := r.registered("a", "b")
	stop()
	if err := register.Unregister(context.Background(), c.client(), "watchers"); err != nil || len(r.stored()) != 4 {
		t.Errorf("removed another's: %v, %v", r.stored(), err)
	}
	if err := register.Unregister(context.Background(), c.client(), "setpoint"); err != nil || len(r.stored()) != 0 {
		t.Errorf("left %v, %v", r.stored(), err)
	}
}
