package setpoint

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// mountingApp handles pods when a Secret changes that they mount.
func mountingApp(handledBy func(*corev1.Secret) []types.NamespacedName) *App {
	app := New("app")
	pods := For[corev1.Pod](app)
	pods.Handle("restart", func(context.Context, *Call[corev1.Pod]) error { return nil }, FormerName("old")).OnRelated()
	Watches(pods, For[corev1.Secret](app, Labels("app=web"), Namespaces("a")), handledBy)
	return app
}

func TestWatchesBecomeAProgram(t *testing.T) {
	app := mountingApp(func(s *corev1.Secret) []types.NamespacedName { return []types.NamespacedName{{Name: s.Name}} })
	got := reaction(t, app)
	related := got.Related[0]
	if related.Resource.Kind != "Secret" || related.Labels != "app=web" || !slices.Equal(related.Namespaces, []string{"a"}) {
		t.Errorf("got %+v", related)
	}
	if h := got.Handlers[0]; !slices.Equal(h.On, []Reason{ReasonRelated}) || !slices.Equal(h.FormerNames, []string{"old"}) {
		t.Errorf("got %+v", h)
	}
	secret := must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`))).In(t)
	if names := related.Map(secret); len(names) != 1 || names[0].Name != "s" {
		t.Errorf("mapped to %v", names)
	}
	// The related kind needs no handlers, and no controller of its own.
	if all := compileApp(t, app, Options{}); len(all) != 1 {
		t.Errorf("got %d controllers", len(all))
	}
	text, err := app.RBAC(t.Context(), "app", Options{Namespace: "home"})
	if err != nil || !strings.Contains(string(text), "related objects") {
		t.Errorf("roles without those of related objects: %v\n%s", err, text)
	}
}

func TestFunctionOfWatchesPanics(t *testing.T) {
	app := mountingApp(func(*corev1.Secret) []types.NamespacedName { panic("oh") })
	secret := []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"namespace":"a","name":"s","labels":{"app":"web"}}}`)
	if _, err := sdk.Of(app).HandledBy(secret); err == nil || !strings.Contains(err.Error(), "the function of Watches panicked: oh") {
		t.Errorf("got %v", err)
	}
	parsed := must.Get(object.Parse(secret)).In(t)
	if names := reaction(t, app).Related[0].Map(parsed); names != nil {
		t.Errorf("mapped to %v", names)
	}
}
