package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/examples/watcher/v1alpha1"
)

const (
	// injectAnnotation lists the Watchers that a pod requests.
	injectAnnotation = "watch.my.domain/inject"
	// injectedAnnotation lists the Watchers that were added.
	injectedAnnotation = "watch.my.domain/injected"
	// requiredAnnotation, on a pod or as a label of a namespace, prevents that a pod
	// starts without its Watchers.
	requiredAnnotation = "watch.my.domain/required"
)

// watcherTimeout is how long a pod waits for a Watcher that does not exist yet.
const watcherTimeout = time.Second / 2

// injector adds Watchers to pods.
type injector struct {
	// watchers are indexed by namespace.
	watchers *setpoint.Index[v1alpha1.Watcher, string]
}

// requested returns the Watchers that a pod requests and those that select it, and the
// names of missing ones.
func (i injector) requested(r *setpoint.Review[corev1.Pod]) (all []*v1alpha1.Watcher, missing []string) {
	annotated := names(r.Object, injectAnnotation)
	missing = slices.Clone(annotated)
	for _, w := range i.watchers.Get(r.Namespace) {
		if w.DeletionTimestamp != nil {
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == w.Name })
		if slices.Contains(annotated, w.Name) || selects(w, r.Object) {
			all = append(all, w)
		}
	}
	return all, missing
}

// selects reports whether a Watcher selects a pod.
func selects(w *v1alpha1.Watcher, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(w.Spec.PodSelector)
	return err == nil && selector.Matches(labels.Set(pod.Labels)) // configure reports an invalid selector.
}

// inject adds the requested Watchers that do not conflict. It does not deny pods.
func (i injector) inject(ctx context.Context, r *setpoint.Review[corev1.Pod]) error {
	var all []*v1alpha1.Watcher
	var missing []string
	// The index may not have a Watcher yet that was created just before the pod.
	_ = wait.PollUntilContextTimeout(ctx, watcherTimeout/20, watcherTimeout, true, func(context.Context) (bool, error) {
		all, missing = i.requested(r)
		return len(missing) == 0, nil
	})
	for _, name := range missing {
		r.Warn("annotation %s: Watcher %s does not exist in namespace %s", injectAnnotation, name, r.Namespace)
	}
	for _, w := range all {
		if has(r.Object, w) {
			continue
		}
		if why := conflict(&r.Object.Spec, &w.Spec); why != "" {
			r.Warn("Watcher %s is not added: %s", w.Name, why)
			r.WarningEvent(w, "Conflict", "not added to pod %s: %s", cmp.Or(r.Name, r.Object.GenerateName+"…"), why)
			continue
		}
		add(r.Object, w)
	}
	return nil
}

// complete denies a pod without a required Watcher.
func (i injector) complete(_ context.Context, r *setpoint.Review[corev1.Pod]) error {
	all, missing := i.requested(r)
	for _, w := range all {
		if !has(r.Object, w) {
			missing = append(missing, w.Name)
		}
	}
	if len(missing) > 0 {
		return setpoint.Deny("%s: the pod must not start without Watcher %s", requiredAnnotation, strings.Join(missing, ", "))
	}
	return nil
}

// names returns the names in an annotation.
func names(pod *corev1.Pod, annotation string) []string {
	return strings.FieldsFunc(pod.Annotations[annotation], func(c rune) bool { return c == ',' || c == ' ' })
}

// has reports whether a Watcher was added to a pod.
func has(pod *corev1.Pod, w *v1alpha1.Watcher) bool {
	return slices.Contains(names(pod, injectedAnnotation), w.Name) && hasContainer(&pod.Spec, w.Spec.Container.Name)
}

func hasContainer(pod *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool { return c.Name == name })
}

// conflict returns why a Watcher cannot be added to a pod, or "".
func conflict(pod *corev1.PodSpec, w *v1alpha1.WatcherSpec) string {
	if name := w.Container.Name; hasContainer(pod, name) {
		return fmt.Sprintf("the pod has a container %s already", name)
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
	}
	if w.Volume != nil {
		if volumes[w.Volume.Name] {
			return fmt.Sprintf("the pod has a volume %s already", w.Volume.Name)
		}
		volumes[w.Volume.Name] = true
	}
	for _, m := range w.Container.VolumeMounts {
		if !volumes[m.Name] {
			return fmt.Sprintf("it mounts the volume %s, which the pod does not have", m.Name)
		}
	}
	return ""
}

func add(pod *corev1.Pod, w *v1alpha1.Watcher) {
	c, spec := w.Spec.Container, &pod.Spec
	c.EnvFrom = append(c.EnvFrom, corev1.EnvFromSource{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMapOf(w)}},
	})
	if w.Spec.Mode == v1alpha1.ModeSidecar {
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		spec.InitContainers = append(spec.InitContainers, c)
	} else {
		spec.Containers = append(spec.Containers, c)
	}
	if w.Spec.Volume != nil {
		spec.Volumes = append(spec.Volumes, *w.Spec.Volume)
	}
	if secret := w.Spec.ImagePullSecrets; secret != nil && !slices.Contains(spec.ImagePullSecrets, *secret) {
		spec.ImagePullSecrets = append(spec.ImagePullSecrets, *secret)
	}
	if there := names(pod, injectedAnnotation); !slices.Contains(there, w.Name) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, injectedAnnotation, strings.Join(append(there, w.Name), ","))
	}
}
