package setpointtest_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/sdk"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// mount is a pod that mounts a Secret.
func mount(namespace, name, app, secret string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.Labels = namespace, name, map[string]string{"app": app}
	source := corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: secret}}
	pod.Spec.Volumes = []corev1.Volume{{VolumeSource: source}}
	return pod
}

// mountApp is an app that tells of each Secret which pods mount it: as an index of
// pods has it.
func mountApp() *setpoint.App {
	app := setpoint.New("mounts")
	pods := setpoint.For[corev1.Pod](app, setpoint.Labels("app=web"), setpoint.Namespaces("shop", "bar"))
	index := setpoint.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.Volumes[0].Secret.SecretName} })
	found := func(secret string) string {
		names := lists.Map(index.Get(secret), func(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name })
		return strings.Join(names, " ")
	}
	secrets := setpoint.For[corev1.Secret](app)
	secrets.Handle("tell", func(_ context.Context, c *setpoint.Call[corev1.Secret]) error {
		c.Message("%s", found(c.Object.Name))
		return nil
	}).OnUpdate()
	maps := setpoint.Compose[corev1.ConfigMap](app)
	maps.Sync(func(_ context.Context, f *setpoint.ComposeContext[corev1.ConfigMap]) error {
		f.Message("%s", found(f.Parent.Name))
		return nil
	})
	return app
}

func TestIndexesAreFilledForACall(t *testing.T) {
	app := mountApp()
	secret := &corev1.Secret{}
	secret.Name = "token"
	for _, c := range []struct {
		options []setpointtest.Option
		want    string
	}{
		{nil, ""},
		{[]setpointtest.Option{setpointtest.Indexed(
			mount("shop", "b", "web", "token"), mount("shop", "a", "web", "token"), mount("shop", "c", "web", "else"),
			mount("shop", "d", "db", "token"), mount("far", "e", "web", "token"),
		)}, "shop/a shop/b"},
		{[]setpointtest.Option{setpointtest.Indexed(mount("bar", "c", "web", "token")), setpointtest.Indexed(mount("", "x", "web", "token"))}, "/x bar/c"},
		{nil, ""},
	} {
		if r := setpointtest.Handle(t, app, "tell", secret, c.options...); r.Err != nil || r.Message != c.want {
			t.Errorf("got %q, %v; want %q", r.Message, r.Err, c.want)
		}
	}
	settings := &corev1.ConfigMap{}
	settings.Name = "settings"
	f := setpointtest.Compose(t, app, "sync", settings, setpointtest.Indexed(mount("shop", "a", "web", "settings")))
	if f.Err != nil || f.Message != "shop/a" {
		t.Errorf("compose: got %q, %v", f.Message, f.Err)
	}
}

func TestOnlyIndexedKindsCanBeFilled(t *testing.T) {
	if _, err := sdk.Of(mountApp()).FillIndexes([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"}}`)); err == nil || !strings.Contains(err.Error(), "has no index of Secret of v1") {
		t.Errorf("got %v", err)
	}
}

// The index says which pods mount a Secret, and Watches calls their handlers.
func TestHandledBy(t *testing.T) {
	app := setpoint.New("restarts")
	pods := setpoint.For[corev1.Pod](app)
	bySecret := setpoint.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Namespace + "/" + p.Spec.Volumes[0].Secret.SecretName} })
	secrets := setpoint.For[corev1.Secret](app, setpoint.Labels("app=web"))
	setpoint.Watches(pods, secrets, func(s *corev1.Secret) (names []types.NamespacedName) {
		for _, pod := range bySecret.Get(s.Namespace + "/" + s.Name) {
			names = append(names, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
		}
		return names
	})
	pods.Handle("restart", func(_ context.Context, c *setpoint.Call[corev1.Pod]) error {
		c.Evict(c.Object)
		return nil
	}).OnRelated()
	pods.Evicts()

	secret := &corev1.Secret{}
	secret.Namespace, secret.Name, secret.Labels = "shop", "token", map[string]string{"app": "web"}
	indexed := setpointtest.Indexed(mount("shop", "b", "web", "token"), mount("shop", "a", "web", "token"), mount("bar", "c", "web", "token"))
	got := setpointtest.HandledBy(t, app, secret, indexed)
	if want := []types.NamespacedName{{Namespace: "shop", Name: "a"}, {Namespace: "shop", Name: "b"}}; !slices.Equal(got, want) {
		t.Errorf("handled by %v, not %v", got, want)
	}
	secret.Labels = nil
	if got := setpointtest.HandledBy(t, app, secret, indexed); got != nil {
		t.Errorf("an object that is not selected is handled by %v", got)
	}
	did := setpointtest.Handle(t, app, "restart", mount("shop", "a", "web", "token"), setpointtest.Reason(setpoint.ReasonRelated))
	if did.Err != nil || len(did.Deleted) != 1 || !did.Deleted[0].Evict {
		t.Errorf("got %+v", did)
	}
}
