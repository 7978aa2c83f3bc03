package setpointtest_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// ledger is a fake of a system that takes payments. A key makes a payment idempotent.
type ledger struct {
	Payments []string
	Keys     map[string]string
}

func (l *ledger) pay(key string) string {
	if key != "" && l.Keys[key] != "" {
		return l.Keys[key]
	}
	id := fmt.Sprintf("payment-%d", len(l.Payments)+1)
	l.Payments = append(l.Payments, id)
	if key != "" {
		if l.Keys == nil {
			l.Keys = map[string]string{}
		}
		l.Keys[key] = id
	}
	return id
}

// payingApp pays once for each ConfigMap, and notes the payment in it.
func payingApp(l *ledger, idempotent bool) *setpoint.App {
	app := setpoint.New("orders")
	orders := setpoint.For[corev1.ConfigMap](app)
	orders.Handle("pay", func(_ context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
		key := ""
		if idempotent {
			key = string(c.Object.UID)
		}
		c.Object.Data = map[string]string{"payment": l.pay(key)}
		return nil
	}).OnCreate()
	return app
}

func order() *corev1.ConfigMap {
	o := &corev1.ConfigMap{}
	o.Name = "order"
	return o
}

// payments explores the app.
func payments(t testing.TB, idempotent bool, bounds setpointtest.Bounds) {
	t.Helper()
	l := &ledger{}
	paidOnce := func(*setpointtest.State) error {
		if len(l.Payments) > 1 {
			return fmt.Errorf("there are %d payments for one order", len(l.Payments))
		}
		return nil
	}
	noted := func(s *setpointtest.State) error {
		o := setpointtest.Get[corev1.ConfigMap](s, "default", "order")
		if len(setpointtest.List[corev1.ConfigMap](s)) != 1 || len(l.Payments) == 0 || o.Data["payment"] != l.Payments[0] {
			return fmt.Errorf("the order has %q, and the ledger %v", o.Data["payment"], l.Payments)
		}
		return nil
	}
	neverLess := func(before, after *setpointtest.State) error {
		if was, is := setpointtest.List[corev1.ConfigMap](before), setpointtest.List[corev1.ConfigMap](after); len(was) > len(is) {
			return fmt.Errorf("there are %d orders after %d", len(is), len(was))
		}
		return nil
	}
	setpointtest.Explore(t, payingApp(l, idempotent), setpointtest.Exploration{
		Objects:  []any{order()},
		Edits:    []setpointtest.Edit{{Name: "label it", Patch: `metadata: {labels: {a: b}}`}},
		External: l,
		Invariants: []setpointtest.Invariant{
			{Name: "paid once", In: paidOnce}, {Name: "noted", AtRest: noted}, {Name: "orders stay", Between: neverLess},
			{Name: "one order", Always: "parents.size() == 1"},
		},
		Bounds: bounds,
	})
}

// A crash, a lost response and an edit between the call and the write make no second payment.
func TestExplore(t *testing.T) {
	payments(t, true, setpointtest.Bounds{Edits: 1, Crashes: 1, Faults: 1})
}

// failingTB records the failure of a test.
type failingTB struct {
	testing.TB

	text strings.Builder
}

func (f *failingTB) Helper()                           {}
func (f *failingTB) Log(args ...any)                   { fmt.Fprintln(&f.text, args...) }
func (f *failingTB) Logf(format string, args ...any)   { fmt.Fprintf(&f.text, format+"\n", args...) }
func (f *failingTB) Errorf(format string, args ...any) { f.Logf(format, args...) }
func (f *failingTB) Fatal(args ...any)                 { f.Log(args...); f.FailNow() }
func (f *failingTB) Fatalf(format string, args ...any) { f.Logf(format, args...); f.FailNow() }
func (f *failingTB) FailNow()                          { panic(f) }

// output returns what a test prints, also if it fails.
func output(t *testing.T, do func(testing.TB)) string {
	t.Helper()
	f := &failingTB{TB: t}
	func() {
		defer func() {
			if value := recover(); value != nil && value != any(f) {
				panic(value)
			}
		}()
		do(f)
	}()
	return f.text.String()
}

func TestExploreFindsAPaymentThatIsMadeTwice(t *testing.T) {
	t.Chdir(t.TempDir())
	crash := setpointtest.Bounds{Crashes: 1}
	got := output(t, func(tb testing.TB) { payments(tb, false, crash) })
	const file = "testdata/explore/TestExploreFindsAPaymentThatIsMadeTwice/paid-once.yaml"
	for _, want := range []string{
		"Violated: paid once: there are 2 payments for one order", "update External systems (state.Payments is [\"payment-1\"]",
		"Setpoint ends, and starts again", "saved as " + file,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas no %q", got, want)
		}
	}
	again := output(t, func(tb testing.TB) { payments(tb, false, crash) })
	if !strings.Contains(again, "the story in "+file+" is still so:\npaid once: there are 2 payments") || strings.Contains(again, "Explored") {
		t.Errorf("again: %s", again)
	}
	mended := output(t, func(tb testing.TB) { payments(tb, true, crash) })
	if !strings.Contains(mended, "Explored") || strings.Contains(mended, "is still so") {
		t.Errorf("mended: %s", mended)
	}
}

// price is a fake whose value changes by itself.
type price struct{ Euros int }

// TestExploreEditsOfExternal notes a value that is not in the cluster, and how many Secrets an index has.
func TestExploreEditsOfExternal(t *testing.T) {
	p := &price{Euros: 1}
	app := setpoint.New("prices")
	secrets, prices := setpoint.For[corev1.Secret](app), setpoint.For[corev1.ConfigMap](app)
	byNamespace := setpoint.NewIndex(secrets, func(s *corev1.Secret) []string { return []string{s.Namespace} })
	note := func(_ context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
		c.Object.Data = map[string]string{"euros": strconv.Itoa(p.Euros), "secrets": strconv.Itoa(len(byNamespace.Get(c.Object.Namespace)))}
		return nil
	}
	prices.Handle("note", note).OnCreate().OnResume().OnRelated()
	setpoint.Watches(prices, secrets, func(s *corev1.Secret) []types.NamespacedName {
		return []types.NamespacedName{{Namespace: s.Namespace, Name: "order"}}
	})
	secret := &corev1.Secret{}
	secret.Name, secret.Namespace = "key", "default"
	known := func(s *setpointtest.State) error {
		got := setpointtest.Get[corev1.ConfigMap](s, "default", "order").Data
		if want := strconv.Itoa(len(setpointtest.List[corev1.Secret](s))); got["secrets"] != want || got["euros"] != "1" && got["euros"] != strconv.Itoa(p.Euros) {
			return fmt.Errorf("the data is %v, with %s Secrets and %d euros", got, want, p.Euros)
		}
		return nil
	}
	setpointtest.Explore(t, app, setpointtest.Exploration{
		Objects:    []any{order(), secret},
		Edits:      []setpointtest.Edit{{Name: "dearer", Of: p, Patch: "Euros: 2"}, {Name: "no secret", Of: secret, Delete: true}},
		External:   p,
		Invariants: []setpointtest.Invariant{{Name: "known", AtRest: known}},
		Unchecked:  []string{"SameEnd", "Desired"}, // The price is that of the last call.
		Bounds:     setpointtest.Bounds{Edits: 2, Crashes: 1},
	})
}

func TestExploreErrors(t *testing.T) {
	for name, test := range map[string]struct {
		exploration setpointtest.Exploration
		want        string
	}{
		"no objects":             {setpointtest.Exploration{}, "objects: is empty"},
		"an object without name": {setpointtest.Exploration{Objects: []any{&corev1.ConfigMap{}}}, "objects[0]: metadata.name: is required"},
		"an unknown kind":        {setpointtest.Exploration{Objects: []any{&Rate{}}}, "Objects[0]: unknown kind of setpointtest_test.Rate"},
		"no such property":       {setpointtest.Exploration{Unchecked: []string{"Fast"}}, `unchecked: "Fast" is no property`},
		"a wrong expression":     {setpointtest.Exploration{Invariants: []setpointtest.Invariant{{Name: "a", Always: "parents +"}}}, "invariants[0].always: "},
		"no expression":          {setpointtest.Exploration{Invariants: []setpointtest.Invariant{{Name: "a"}}}, "invariants[0]: has no expression"},
		"two expressions":        {setpointtest.Exploration{Invariants: []setpointtest.Invariant{{Name: "a", Always: "true", In: func(*setpointtest.State) error { return nil }}}}, "Invariants[0]: has several expressions or functions"},
		"a wrong patch":          {setpointtest.Exploration{Edits: []setpointtest.Edit{{Name: "a", Patch: "{"}}}, "Edits[0].Patch: "},
		"a patch that is text":   {setpointtest.Exploration{Edits: []setpointtest.Edit{{Name: "a", Patch: "b"}}}, "Edits[0].Patch: must be an object, such as"},
		"an edit of nothing":     {setpointtest.Exploration{Objects: []any{order()}, Edits: []setpointtest.Edit{{Name: "a", Of: &corev1.Secret{}, Delete: true}}}, "edits[0].of: fits 0 objects"},
		"a fake by value":        {setpointtest.Exploration{External: price{}}, "External: must be a pointer to a value that JSON holds"},
		"a fake without fields":  {setpointtest.Exploration{External: &struct{ a int }{}}, "has no exported fields, so its state would not be explored"},
		"a fake that JSON loses": {setpointtest.Exploration{External: &struct{ A any }{func() {}}}, "unsupported type: func()"},
		"wrong bounds":           {setpointtest.Exploration{Objects: []any{order()}, Bounds: setpointtest.Bounds{Edits: -1}}, "bounds.edits: must be from 0 to 20"},
	} {
		got := output(t, func(tb testing.TB) { setpointtest.Explore(tb, payingApp(&ledger{}, true), test.exploration) })
		if !strings.HasPrefix(got, "explore: ") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestExploreCreates has an edit that creates an object which has nothing in common with those before.
func TestExploreCreates(t *testing.T) {
	t.Chdir(t.TempDir())
	second := order()
	second.Name = "second"
	got := output(t, func(tb testing.TB) {
		setpointtest.Explore(tb, payingApp(&ledger{}, true), setpointtest.Exploration{
			Objects:    []any{order()},
			Edits:      []setpointtest.Edit{{Name: "order again", Create: second}},
			Invariants: []setpointtest.Invariant{{Name: "one order", Always: "parents.size() < 2"}},
			Bounds:     setpointtest.Bounds{Edits: 1},
		})
	})
	if !strings.Contains(got, "Violated: one order") {
		t.Error(got)
	}
}
