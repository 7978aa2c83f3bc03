package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/examples/watcher/v1alpha1"
	"github.com/setpoint-dev/setpoint/setpointtest"
)

// tail is a Watcher in the namespace shop, with a volume of its own.
func tail(changes ...func(*v1alpha1.Watcher)) *v1alpha1.Watcher {
	w := &v1alpha1.Watcher{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tail"},
		Spec: v1alpha1.WatcherSpec{
			Container: corev1.Container{
				Name: "tail", Image: "busybox:1.37", VolumeMounts: []corev1.VolumeMount{{Name: "spool", MountPath: "/spool"}},
				EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "token"}}}},
			},
			Volume:           &corev1.Volume{Name: "spool"},
			ImagePullSecrets: &corev1.LocalObjectReference{Name: "registry"},
			ConfigData:       map[string]string{"a": "1"},
			ConfigBinaryData: map[string][]byte{"b": {2}},
		},
	}
	for _, change := range changes {
		change(w)
	}
	return w
}

// web is a pod that asks for Watchers.
func web(calls string, changes ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Annotations: map[string]string{injectAnnotation: calls}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web"}}},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

func TestAWatcherIsAdded(t *testing.T) {
	r := setpointtest.Review(t, newApp(), "inject", web("tail"), setpointtest.Indexed(tail()))
	if r.Err != nil || r.Denial != nil || r.Warnings != nil || len(r.Object.Spec.Containers) != 2 {
		t.Fatalf("got %+v", r)
	}
	got := r.Object.Spec
	want := tail().Spec.Container
	want.EnvFrom = append(want.EnvFrom, corev1.EnvFromSource{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "tail-config"}},
	})
	if diff := cmp.Diff(want, got.Containers[1]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.LocalObjectReference{{Name: "registry"}}, got.ImagePullSecrets); diff != "" || len(got.Volumes) != 1 {
		t.Errorf("volumes %v, secrets (-want +got):\n%s", got.Volumes, diff)
	}
	if r.Object.Annotations[injectedAnnotation] != "tail" {
		t.Errorf("annotations %v", r.Object.Annotations)
	}
}

func TestSidecarIsARestartableInitContainer(t *testing.T) {
	sidecar := tail(func(w *v1alpha1.Watcher) { w.Spec.Mode = v1alpha1.ModeSidecar })
	r := setpointtest.Review(t, newApp(), "inject", web("tail"), setpointtest.Indexed(sidecar))
	got := r.Object.Spec.InitContainers
	if len(got) != 1 || got[0].RestartPolicy == nil || *got[0].RestartPolicy != corev1.ContainerRestartPolicyAlways || len(r.Object.Spec.Containers) != 1 {
		t.Errorf("got %+v", r.Object.Spec)
	}
}

// Each row is a pod, the Watchers that there are, and those that it has in the end.
func TestWhichWatchersAreAdded(t *testing.T) {
	second := func(name string, changes ...func(*v1alpha1.Watcher)) *v1alpha1.Watcher {
		w := tail(changes...)
		w.Name, w.Spec.Container.Name, w.Spec.Volume, w.Spec.Container.VolumeMounts = name, name, nil, nil
		return w
	}
	selecting := func(labels map[string]string) func(*v1alpha1.Watcher) {
		return func(w *v1alpha1.Watcher) { w.Spec.PodSelector = &metav1.LabelSelector{MatchLabels: labels} }
	}
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"app": "web"} }
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		watchers []any
		has      string
		warning  string
	}{
		"none":              {web(""), []any{tail()}, "", ""},
		"missing":           {web("tail"), []any{second("other")}, "", "Watcher tail does not exist in namespace shop"},
		"elsewhere":         {web("tail"), []any{tail(func(w *v1alpha1.Watcher) { w.Namespace = "else" })}, "", "Watcher tail does not exist"},
		"going":             {web("tail"), []any{tail(func(w *v1alpha1.Watcher) { w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} })}, "", "Watcher tail does not exist"},
		"several":           {web(" b, tail,,b"), []any{tail(), second("b"), second("c")}, "b,tail", ""},
		"one of two":        {web("tail,x"), []any{tail()}, "tail", "Watcher x does not exist"},
		"selected":          {web("", labelled), []any{second("s", selecting(map[string]string{"app": "web"}))}, "s", ""},
		"all selected":      {web(""), []any{second("s", selecting(nil))}, "s", ""},
		"not selected":      {web("", labelled), []any{second("s", selecting(map[string]string{"app": "db"}))}, "", ""},
		"selected and asks": {web("s", labelled), []any{second("s", selecting(map[string]string{"app": "web"}))}, "s", ""},
		"bad selector": {web(""), []any{second("s", func(w *v1alpha1.Watcher) {
			w.Spec.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}
		})}, "", ""},
		"container taken":      {web("tail", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "tail" }), []any{tail()}, "", "Watcher tail is not added: the pod has a container tail already"},
		"init container taken": {web("tail", func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "tail"}} }), []any{tail()}, "", "the pod has a container tail already"},
		"volume taken":         {web("tail,b", func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "spool"}} }), []any{tail(), second("b")}, "b", "the pod has a volume spool already"},
		"volume missing":       {web("tail"), []any{tail(func(w *v1alpha1.Watcher) { w.Spec.Volume = nil })}, "", "it mounts the volume spool, which the pod does not have"},
		"volume of the pod":    {web("tail", func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "spool"}} }), []any{tail(func(w *v1alpha1.Watcher) { w.Spec.Volume = nil })}, "tail", ""},
		"claimed to be there":  {web("tail", func(p *corev1.Pod) { p.Annotations[injectedAnnotation] = "tail" }), []any{tail()}, "tail", ""},
	} {
		r := setpointtest.Review(t, newApp(), "inject", c.pod, setpointtest.Indexed(c.watchers...))
		if r.Err != nil || r.Denial != nil {
			t.Fatalf("%s: %v, %v", name, r.Err, r.Denial)
		}
		added := strings.Count(c.has, ",") + min(len(c.has), 1)
		if got := r.Object.Annotations[injectedAnnotation]; got != c.has || len(r.Object.Spec.Containers) != 1+added {
			t.Errorf("%s: has %q and the containers %v; want %q", name, got, r.Object.Spec.Containers, c.has)
		}
		if warned := strings.Join(r.Warnings, "\n"); !strings.Contains(warned, c.warning) || (warned == "") != (c.warning == "") {
			t.Errorf("%s: warned %q, want %q", name, warned, c.warning)
		}
	}
}

func TestConflictEventOnTheWatcher(t *testing.T) {
	pod := web("tail", func(p *corev1.Pod) { p.Spec.Containers[0].Name = "tail" })
	r := setpointtest.Review(t, newApp(), "inject", pod, setpointtest.Indexed(tail()))
	if len(r.Events) != 1 || r.Mutated {
		t.Fatalf("got %+v", r)
	}
	got := r.Events[0]
	if got.Kind != "Watcher" || got.Name != "tail" || got.Type != "Warning" || got.Reason != "Conflict" ||
		got.Message != "not added to pod web: the pod has a container tail already" {
		t.Errorf("got %+v", got)
	}
}

func TestRequiredWatchers(t *testing.T) {
	complete := setpointtest.Review(t, newApp(), "inject", web("tail"), setpointtest.Indexed(tail())).Object
	selecting := tail(func(w *v1alpha1.Watcher) { w.Spec.PodSelector = &metav1.LabelSelector{} })
	for name, c := range map[string]struct {
		pod      *corev1.Pod
		watchers []any
		lacks    string
	}{
		"complete":         {complete, []any{tail()}, ""},
		"asks for nothing": {web(""), []any{tail()}, ""},
		"missing":          {web("x,tail"), []any{tail()}, "x, tail"},
		"selected":         {web(""), []any{selecting}, "tail"},
		"only claimed":     {web("tail", func(p *corev1.Pod) { p.Annotations[injectedAnnotation] = "tail" }), []any{tail()}, "tail"},
	} {
		for _, handler := range []string{"complete", "complete-here"} {
			r := setpointtest.Review(t, newApp(), handler, c.pod, setpointtest.Indexed(c.watchers...))
			if r.Err != nil || (r.Denial == nil) != (c.lacks == "") {
				t.Errorf("%s: got %+v", name, r)
			} else if r.Denial != nil && r.Denial.Message != requiredAnnotation+": the pod must not start without Watcher "+c.lacks {
				t.Errorf("%s: got %q", name, r.Denial.Message)
			}
		}
	}
}

func TestTheConfigMap(t *testing.T) {
	stored := func(changes ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tail-config"}, Data: map[string]string{"a": "7"}}
		for _, change := range changes {
			change(m)
		}
		return m
	}
	for name, c := range map[string]struct {
		stored []any
		anew   bool
	}{
		"deleted":       {nil, false},
		"edited":        {[]any{stored()}, false},
		"key added":     {[]any{stored(func(m *corev1.ConfigMap) { m.Data["x"] = "" })}, true},
		"binary added":  {[]any{stored(func(m *corev1.ConfigMap) { m.BinaryData = map[string][]byte{"x": {}} })}, true},
		"made constant": {[]any{stored(func(m *corev1.ConfigMap) { m.Immutable = new(true) })}, true},
	} {
		r := setpointtest.Handle(t, newApp(), "configure", tail(), setpointtest.Reason(setpoint.ReasonDrift), setpointtest.Owned(c.stored...))
		if r.Err != nil || len(r.Applied) != 1 || (len(r.Deleted) == 1) != c.anew {
			t.Fatalf("%s: %v, applied %v, deleted %v", name, r.Err, r.Applied, r.Deleted)
		}
		var got corev1.ConfigMap
		r.Applied[0].As(t, &got)
		if got.Name != "tail-config" || got.Data["a"] != "1" || got.BinaryData["b"][0] != 2 || r.Applied[0].Unowned {
			t.Errorf("%s: applied %+v", name, got)
		}
		if r.Object.Status.ConfigMapName != "tail-config" {
			t.Errorf("%s: status %+v", name, r.Object.Status)
		}
	}
}

func TestEventOnBadSelector(t *testing.T) {
	bad := tail(func(w *v1alpha1.Watcher) {
		w.Spec.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}
	})
	r := setpointtest.Handle(t, newApp(), "configure", bad)
	if r.Err == nil || !strings.Contains(r.Err.Error(), "spec.podSelector: ") || r.Applied != nil {
		t.Errorf("got %v, applied %v", r.Err, r.Applied)
	}
}

// deploy.yaml has what `watcher rbac --namespace watcher` prints, as it stands.
func TestDeployManifestMatchesRBAC(t *testing.T) {
	inside := setpoint.Options{Namespace: "watcher", LeaderElection: setpoint.LeaderElection{Enabled: true}, InspectAddress: "auto"}
	rbac, err := newApp().RBAC(t.Context(), "watcher", inside)
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := os.ReadFile("deploy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(deploy), "---\n"+string(rbac)+"---\n") {
		t.Errorf("deploy.yaml has other permissions than it takes; put this there, between lines of three dashes:\n%s", rbac)
	}
}
