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
	// injectAnnotation is the annotation by which a pod names the Watchers it asks for.
	injectAnnotation = "watch.my.domain/inject"
	// injectedAnnotation is the one that says which are in it.
	injectedAnnotation = "watch.my.domain/injected"
	// requiredAnnotation says, at a pod or as a label of a namespace, that a pod must not start
	// without the Watchers that are for it.
	requiredAnnotation = "watch.my.domain/required"
)

// watcherTimeout is how long a pod waits for a Watcher that it names, and that is not there.
const watcherTimeout = time.Second / 2

// injector puts Watchers into pods.
type injector struct {
	// watchers are found by their namespace.
	watchers *setpoint.Index[v1alpha1.Watcher, string]
}

// requested are the Watchers that a pod asks for, and those that select it. Missing are
// the names of those that do not exist.
func (i injector) requested(r *setpoint.Review[corev1.Pod]) (all []*v1alpha1.Watcher, missing []string) {
	asked := names(r.Object, injectAnnotation)
	missing = slices.Clone(asked)
	for _, w := range i.watchers.Get(r.Namespace) {
		if w.DeletionTimestamp != nil {
			continue
		}
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == w.Name })
		if slices.Contains(asked, w.Name) || selects(w, r.Object) {
			all = append(all, w)
		}
	}
	return all, missing
}

// selects says that a Watcher is for a pod that need not ask for it.
func selects(w *v1alpha1.Watcher, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(w.Spec.PodSelector)
	return err == nil && selector.Matches(labels.Set(pod.Labels)) // Of what is wrong with it configure tells.
}

// inject adds the Watchers that are meant, as far as they fit in. No pod is refused
// for want of one.
func (i injector) inject(ctx context.Context, r *setpoint.Review[corev1.Pod]) error {
	var all []*v1alpha1.Watcher
	var missing []string
	// A Watcher that was stored a moment before the pod may not be known here yet. What
	// is missing in the end is told below.
	_ = wait.PollUntilContextTimeout(ctx, watcherTimeout/20, watcherTimeout, true, func(context.Context) (bool, error) {
		all, missing = i.requested(r)
		return len(missing) == 0, nil
	})
	for _, name := range missing {
		r.Warn("annotation %s: there is no Watcher %s in namespace %s", injectAnnotation, name, r.Namespace)
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

// complete refuses a pod that lacks a Watcher without which it must not start.
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

// names are what an annotation lists.
func names(pod *corev1.Pod, annotation string) []string {
	return strings.FieldsFunc(pod.Annotations[annotation], func(c rune) bool { return c == ',' || c == ' ' })
}

// has says that a Watcher has been added to a pod.
func has(pod *corev1.Pod, w *v1alpha1.Watcher) bool {
	return slices.Contains(names(pod, injectedAnnotation), w.Name) && hasContainer(&pod.Spec, w.Spec.Container.Name)
}

func hasContainer(pod *corev1.PodSpec, name string) bool {
	return slices.ContainsFunc(slices.Concat(pod.InitContainers, pod.Containers), func(c corev1.Container) bool { return c.Name == name })
}

// conflict is why a pod with a Watcher could not be; "" if it can.
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

// add puts a Watcher into a pod.
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
