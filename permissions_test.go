package setpoint

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// Fault G3: what a program has to be allowed to write roles and bindings can be said, and
// rbac says where it was not.
func TestPermissionsBeyondDeclarations(t *testing.T) {
	secrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	const bind = "  # declared by the program\n  - {apiGroups: [rbac.authorization.k8s.io], resourceNames: [view, edit], resources: [clusterroles], verbs: [bind]}\n"
	const caveat = `# name them with app.Binds("ClusterRole", "view")`
	for name, c := range map[string]struct {
		owns        any
		say         func(*App)
		namespaces  []string
		want, never string
	}{
		"nothing said":   {&rbacv1.RoleBinding{}, func(*App) {}, nil, caveat, "verbs: [bind]"},
		"no bindings":    {&corev1.Secret{}, func(*App) {}, nil, "resources: [secrets]", "app."},
		"roles":          {&rbacv1.Role{}, func(*App) {}, nil, "# add them with app.Requires.", "app.Binds"},
		"rules of roles": {&rbacv1.Role{}, func(a *App) { a.Requires(secrets) }, nil, "resources: [secrets], verbs: [get]", "app."},
		"bound": {&rbacv1.RoleBinding{}, func(a *App) { a.Binds("ClusterRole", "view", "edit") }, nil,
			"kind: ClusterRole\n*" + bind, "app."},
		"bound in a namespace": {&rbacv1.RoleBinding{}, func(a *App) { a.Binds("ClusterRole", "view", "edit") }, []string{"a"},
			"namespace: a\nrules:\n*" + bind, "app."},
		"bound everywhere": {&rbacv1.ClusterRoleBinding{}, func(a *App) { a.Binds("ClusterRole", "view", "edit") }, []string{"a"},
			"kind: ClusterRole\n*" + bind + "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding", "app."},
	} {
		t.Run(name, func(t *testing.T) {
			app := New("app")
			maps := For[corev1.ConfigMap](app)
			maps.Handle("handle", handleMap).OnCreate()
			maps.Owns(c.owns)
			c.say(app)
			text := must.Get(app.RBAC(t.Context(), "me", Options{Namespace: "home", Namespaces: c.namespaces})).In(t)
			rest := string(text)
			for part := range strings.SplitSeq(c.want, "*") {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Fatalf("lacks %q in\n%s", part, text)
				}
				rest = after
			}
			if strings.Contains(string(text), c.never) {
				t.Errorf("has %q:\n%s", c.never, text)
			}
		})
	}
	app := New("app")
	For[corev1.ConfigMap](app).Handle("handle", handleMap).OnCreate()
	app.Binds("Rule", "")
	if _, err := app.RBAC(t.Context(), "me", Options{}); err == nil || !strings.Contains(err.Error(), `Binds("Rule"): the kind must be Role or ClusterRole`) {
		t.Errorf("got %v", err)
	}
}

// Fault G12: Compose of a kind and reviews of it go together in one app, in any order.
func TestComposeAndReviewsOfOneKind(t *testing.T) {
	compose := func(app *App) {
		maps := Compose[corev1.ConfigMap](app)
		maps.Sync(func(context.Context, *ComposeContext[corev1.ConfigMap]) error { return nil })
		maps.Owns(&corev1.Secret{})
	}
	review := func(app *App) {
		For[corev1.ConfigMap](app).Validate("sizes", func(context.Context, *Review[corev1.ConfigMap]) error { return nil })
	}
	index := func(app *App) { NewIndex(For[corev1.ConfigMap](app), func(*corev1.ConfigMap) []string { return nil }) }
	for name, parts := range map[string][]func(*App){
		"compose first":    {compose, review, index},
		"reviews first":    {review, index, compose},
		"handlers instead": {review, func(app *App) { For[corev1.ConfigMap](app).Handle("handle", handleMap).OnCreate() }},
		"two of reviews":   {review, review},
	} {
		t.Run(name, func(t *testing.T) {
			app := New("app")
			for _, add := range parts {
				add(app)
			}
			all := compileApp(t, app, Options{})
			if len(all) != len(parts) {
				t.Fatalf("%d controllers", len(all))
			}
			for _, one := range all {
				for i := range one.Programs {
					if one.Programs[i].Name != "app/configmap" {
						t.Errorf("the composer is called %s", one.Programs[i].Name)
					}
				}
				if one.Admission != nil && !strings.HasPrefix(one.Admission.Name, "app/configmap") {
					t.Errorf("the reviews are called %s", one.Admission.Name)
				}
			}
			if name == "two of reviews" {
				return
			}
			for _, called := range []string{"sizes", "configmap/sizes", "configmap-admission/sizes"} {
				if _, err := sdk.Of(app).Reviewer(called); err != nil {
					t.Errorf("%s: %v", called, err)
				}
			}
		})
	}
	app := New("app")
	compose(app)
	For[corev1.ConfigMap](app).Handle("handle", handleMap).OnCreate()
	if err := problemsOf(app, Options{}); err == nil || !strings.Contains(err.Error(), "two controllers are named app/configmap") {
		t.Errorf("handlers keep their records by a name: %v", err)
	}
}

func TestRBACIsMinimal(t *testing.T) {
	app := New("app")
	maps := For[corev1.ConfigMap](app)
	maps.Handle("handle", handleMap).OnCreate()
	maps.Deletes(&corev1.Pod{})
	pods := For[corev1.Pod](app)
	NewIndex(pods, func(*corev1.Pod) []string { return nil })
	text := must.Get(app.RBAC(t.Context(), "me", Options{Namespace: "home", Namespaces: []string{"a"}})).In(t)
	const want = `kind: Role
metadata:
  name: app
  namespace: a
rules:
  # app/configmap: handled objects
  - {apiGroups: [""], resources: [configmaps], verbs: [get, list, watch, patch]}
  # app/configmap: events
  - {apiGroups: [""], resources: [events], verbs: [create, patch]}
  # app/configmap: writes of handlers; app/pod: handled objects
  - {apiGroups: [""], resources: [pods], verbs: [get, list, watch, delete]}
`
	if !strings.Contains(string(text), want) {
		t.Errorf("got\n%s\nwant in it\n%s", text, want)
	}
}
