package sdk

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// pod is one that mounts Secrets.
func pod(t *testing.T, name string, secrets ...string) *object.Object {
	t.Helper()
	text := ""
	for i, secret := range secrets {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(`{"name":"v%d","secret":{"secretName":%q}}`, i, secret)
	}
	return must.Get(object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"shop"},"spec":{"volumes":[%s]}}`, name, text))).In(t)
}

// podsOf are the pods of an app.
func podsOf(app *App) *Handlers { return NewHandlers(app, reflect.TypeFor[corev1.Pod]()) }

// secretsOf is a function of an index.
func secretsOf(o *object.Object) []string {
	var all []string
	var p corev1.Pod
	if err := json.Unmarshal(o.JSON(), &p); err != nil {
		panic(err)
	}
	all = append(all, lists.Map(p.Spec.Volumes, func(v corev1.Volume) string { return v.Secret.SecretName })...)
	return all
}

func TestIndexFollows(t *testing.T) {
	index := NewIndex(&podsOf(NewApp("app")).Controller, secretsOf)
	changed, stop := index.startWatch()
	has := func(secret string, want ...string) {
		t.Helper()
		got := lists.Map(index.Find(secret), (*object.Object).Name)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", secret, got, want)
		}
	}
	has("a")
	changed(cache.Event{New: pod(t, "two", "a", "b")})
	changed(cache.Event{New: pod(t, "one", "a")})
	has("a", "one", "two")
	has("b", "two")
	changed(cache.Event{Old: pod(t, "two", "a", "b"), New: pod(t, "two", "c")})
	has("a", "one")
	has("b")
	has("c", "two")
	changed(cache.Event{Old: pod(t, "one", "a")})
	has("a")

	// A controller that is made anew has watches of its own: the first count
	// until they end.
	again, _ := index.startWatch()
	again(cache.Event{New: pod(t, "three", "a")})
	has("a")
	stop()
	has("a", "three")
	has("c")
}

// A panic in the key function leaves the object without keys and does not stop the program.
func TestIndexKeysMayPanic(t *testing.T) {
	app := NewApp("app")
	app.log = slog.New(slog.DiscardHandler)
	index := NewIndex(&podsOf(app).Controller, func(o *object.Object) []string {
		if o.Name() == "three" {
			runtime.Goexit() // Fault H4: it ended the watch.
		}
		return []string{secretsOf(o)[0]}
	})
	changed, _ := index.startWatch()
	changed(cache.Event{New: pod(t, "one", "a")})
	changed(cache.Event{New: pod(t, "two")})
	changed(cache.Event{New: pod(t, "three", "a")})
	changed(cache.Event{Old: pod(t, "one", "a"), New: pod(t, "one")})
	if found := index.Find("a"); found != nil {
		t.Errorf("got %v", found)
	}
}

func TestMemoriesAreDropped(t *testing.T) {
	m := &memories{}
	count := func() int {
		n, ok := m.get("1", nil, func() any { return new(int) }).(*int)
		if !ok {
			t.Fatal("not an int")
		}
		*n++
		return *n
	}
	parse := func(uid string) *object.Object {
		return must.Get(object.Parse(fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","uid":%q}}`, uid))).In(t)
	}
	count()
	m.onEvent(cache.Event{New: parse("1")})
	m.onEvent(cache.Event{Old: parse("1"), New: parse("1")})
	if n := count(); n != 2 {
		t.Errorf("got %d, want 2: it was forgotten while it is there", n)
	}
	m.onEvent(cache.Event{Old: parse("1"), New: parse("2")})
	if n := count(); n != 1 {
		t.Errorf("got %d, want 1: another object of the name took its place", n)
	}
	m.onEvent(cache.Event{Old: parse("1")})
	if n := count(); n != 1 {
		t.Errorf("got %d, want 1: it is gone", n)
	}
}

func TestHandlersWaitForIndexes(t *testing.T) {
	app := NewApp("app")
	NewIndex(&podsOf(app).Controller, secretsOf)
	must.Succeed(t, app.waitForIndexes(context.Background())) // Called by hand.
	app.running = true
	if err := app.waitForIndexes(context.Background()); err == nil {
		t.Error("nothing is watched yet, and it is filled")
	}
}
