package admission_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const guardLease = "/apis/coordination.k8s.io/v1/namespaces/home/leases/guard-process"

// collectorTest is a Collector at work.
type collectorTest struct {
	t       *testing.T
	cluster *fakeAPIServer
	clock   *clocktesting.FakeClock
	reads   int
	removed chan string
	unused  bool
}

func collector(t *testing.T, c *fakeAPIServer) *collectorTest {
	t.Helper()
	// Its clock is an hour behind that of the process whose Leases it reads.
	k := &collectorTest{t: t, cluster: c, clock: clocktesting.NewFakeClock(time.Now().Add(-time.Hour)), removed: make(chan string, 10)}
	c.refuse = func(r *http.Request) error { // It is called with the lock held.
		if strings.Contains(r.URL.Path, "/leases/") {
			k.reads++
		}
		return nil
	}
	one := register.NewCollector(register.CollectorOptions{
		Store: c.store(), Client: c.client(), Clock: k.clock, Log: slog.New(slog.DiscardHandler),
		OwnLease:  func() types.NamespacedName { return types.NamespacedName{Namespace: "home", Name: "me-process"} },
		Unused:    func() (unused bool) { c.with(func() { unused = k.unused }); return unused },
		OnRemoved: func(o *object.Object, lease types.NamespacedName) { k.removed <- o.Name() + " of " + lease.String() },
	})
	run(t, one.Run)
	return k
}

// pollLeases lets it read Leases n times, before each of which so much time passes and change
// is called.
func (k *collectorTest) pollLeases(n int, pause time.Duration, change func()) {
	k.t.Helper()
	for range n {
		must.Eventually(k.t, "it waits", k.clock.HasWaiters)
		change()
		var before int
		k.cluster.with(func() { before = k.reads })
		k.clock.Step(pause)
		must.Eventually(k.t, "it looks", func() (looked bool) {
			k.cluster.with(func() { looked = k.reads > before })
			return looked || len(k.removed) > 0
		})
	}
}

// registered is a configuration that names a Lease.
func registered(name, lease, client string) string {
	return fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":%q,"uid":%[1]q,`+
		`"labels":{"setpoint.dev/admission":"home.guard"},"annotations":{"setpoint.dev/admission-program":"guard/Pod","setpoint.dev/admission-lease":%q}},`+
		`"webhooks":[{"name":"check","failurePolicy":"Fail","clientConfig":%s}]}`, name, lease, client)
}

func (c *fakeAPIServer) renew(path string, times int) {
	c.create(path, fmt.Sprintf(`{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":%q},`+
		`"spec":{"holderIdentity":"one","leaseDurationSeconds":20,"renewTime":%q}}`, path[strings.LastIndexByte(path, '/')+1:],
		time.Unix(int64(times), 0).UTC().Format("2006-01-02T15:04:05.000000Z")))
}

const byURL = `{"url":"https://127.0.0.1:9443/admit"}`

// Fault H13: the configuration of a process that was killed refuses writes until the
// process starts again. Another process removes it once its Lease has run out, and never
// one of a process that renews its Lease, or may be reached by a Service.
func TestCollectorRemovesAbandonedConfigurations(t *testing.T) {
	c := newFakeAPIServer(t)
	for name, o := range map[string][2]string{
		"killed": {"home/guard-process", byURL}, "alive": {"home/alive-process", byURL}, "unknown": {"home/nowhere-process", byURL},
		"replicated": {"home/guard-process", `{"service":{"namespace":"home","name":"guard"}}`}, "mine": {"home/me-process", byURL},
	} {
		c.create(validatingPath+"/"+name, registered(name, o[0], o[1]))
	}
	c.create(validatingPath+"/elected", strings.ReplaceAll(registered("elected", "", byURL), `,"setpoint.dev/admission-lease":""`, ""))
	renewals := 0
	renew := func() { renewals++; c.renew(strings.Replace(guardLease, "guard", "alive", 1), renewals) }
	c.renew(guardLease, 1)
	renew()
	k := collector(t, c)
	for range 20 {
		if len(k.removed) > 0 {
			break
		}
		k.pollLeases(1, 5*time.Second, renew)
	}
	if got := <-k.removed; got != "killed of home/guard-process" {
		t.Errorf("removed %s", got)
	}
	k.pollLeases(5, 5*time.Second, renew)
	want := []string{validatingPath + "/alive", validatingPath + "/elected", validatingPath + "/mine", validatingPath + "/replicated", validatingPath + "/unknown"}
	if got := c.paths("webhookconfigurations"); !slices.Equal(got, want) {
		t.Errorf("left %v", got)
	}
	// The program restarted without reviews: the API server no longer calls it.
	c.with(func() { k.unused = true })
	must.Eventually(t, "its own is removed", func() bool {
		renew()
		k.clock.Step(5 * time.Second)
		return c.get(validatingPath+"/mine") == nil
	})
}

// Fault H13: a process that goes on before it is known to be gone keeps its configuration,
// as does one that has registered again meanwhile.
func TestCollectorKeepsLiveConfigurations(t *testing.T) {
	c := newFakeAPIServer(t)
	path := validatingPath + "/guard"
	c.create(path, registered("guard", "home/guard-process", byURL))
	c.renew(guardLease, 1)
	k := collector(t, c)
	k.pollLeases(3, 5*time.Second, func() {}) // 10 or 15 s after it was first seen so; a slow read may end 5 s later.
	c.renew(guardLease, 2)
	k.pollLeases(4, 5*time.Second, func() {})
	if c.get(path) == nil {
		t.Fatal("removed before the Lease ran out")
	}
	// It registers again in the moment in which the Lease was last read.
	c.with(func() {
		c.refuse = func(r *http.Request) error {
			if r.Method == http.MethodDelete {
				c.objects[path].SetResourceVersion("1000000")
				k.reads++
			}
			return nil
		}
	})
	k.pollLeases(1, 20*time.Second, func() {})
	if c.get(path) == nil || len(k.removed) > 0 {
		t.Error("removed what was registered again")
	}
}

// paths are the stored objects whose path contains some text.
func (c *fakeAPIServer) paths(text string) (paths []string) {
	c.with(func() {
		for path := range c.objects {
			if strings.Contains(path, text) {
				paths = append(paths, path)
			}
		}
	})
	slices.Sort(paths)
	return paths
}

// Fault H13: a process says by which Lease it is known to be alive, as long as it holds it,
// and not where a Service leads to it.
func TestRegistrarNamesItsLease(t *testing.T) {
	c := newFakeAPIServer(t)
	r := registrar(t, c)
	var lease types.NamespacedName
	byAddress := func(a register.Address) *registrarTest {
		return &registrarTest{register.New(register.Options{
			Registration: register.Registration{Address: a, Namespace: "ops", Group: "setpoint", Lease: func() (reservation types.NamespacedName) {
				c.with(func() { reservation = lease })
				return reservation
			}},
			Certificates: r.keeper.Manager, Store: c.store(), Client: c.client(), Clock: r.keeper.clock, Log: slog.New(slog.DiscardHandler),
		}), t, c, r.keeper}
	}
	named := func() string { return c.get(validatingPath + "/a").GetAnnotations()["setpoint.dev/admission-lease"] }
	outside := byAddress(register.Address{URL: "https://127.0.0.1:9443"})
	stop := outside.registered("a")
	for _, reservation := range []types.NamespacedName{{}, {Namespace: "home", Name: "guard-process"}, {}, {Namespace: "home", Name: "guard-process"}} {
		want := ""
		if reservation.Name != "" {
			want = reservation.String()
		}
		c.with(func() { lease = reservation })
		outside.set("a")
		must.Eventually(t, "it names "+want, func() bool { return named() == want })
	}
	stop()
	inside := byAddress(register.Address{Service: register.ServiceRef{Namespace: "ops", Name: "setpoint"}})
	inside.registered("a")
	must.Eventually(t, "it names none", func() bool { return named() == "" })
}
