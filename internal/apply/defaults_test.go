package apply_test

import (
	"cmp"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// setDefaults sets some of the defaults that the API server sets.
func setDefaults(o runtime.Object) {
	switch o := o.(type) {
	case *corev1.Secret:
		o.Type = cmp.Or(o.Type, corev1.SecretTypeOpaque)
		for key, value := range o.StringData {
			if o.Data == nil {
				o.Data = map[string][]byte{}
			}
			o.Data[key] = []byte(value)
		}
		o.StringData = nil
	case *corev1.Service:
		o.Spec.ClusterIP = cmp.Or(o.Spec.ClusterIP, "10.0.0.7")
		o.Spec.SessionAffinity = cmp.Or(o.Spec.SessionAffinity, corev1.ServiceAffinityNone)
		for i := range o.Spec.Ports {
			port := &o.Spec.Ports[i]
			port.Protocol = cmp.Or(port.Protocol, corev1.ProtocolTCP)
			if port.TargetPort == (intstr.IntOrString{}) {
				port.TargetPort = intstr.FromInt32(port.Port)
			}
		}
	case *corev1.Pod:
		defaultPod(&o.Spec)
	case *appsv1.Deployment:
		setIfNil(&o.Spec.Replicas, 1)
		setIfNil(&o.Spec.ProgressDeadlineSeconds, 600)
		o.Spec.Strategy.Type = cmp.Or(o.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
		if o.Spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType && o.Spec.Strategy.RollingUpdate == nil {
			quarter := intstr.FromString("25%")
			o.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &quarter, MaxUnavailable: &quarter}
		}
		defaultPod(&o.Spec.Template.Spec)
	case *appsv1.StatefulSet:
		setIfNil(&o.Spec.Replicas, 1)
		defaultPod(&o.Spec.Template.Spec)
		for i := range o.Spec.VolumeClaimTemplates {
			claim := &o.Spec.VolumeClaimTemplates[i]
			claim.APIVersion, claim.Kind = "v1", "PersistentVolumeClaim"
			setIfNil(&claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
			claim.Status.Phase = cmp.Or(claim.Status.Phase, corev1.ClaimPending)
		}
	case *networkingv1.NetworkPolicy:
		for i := range o.Spec.Ingress {
			for j := range o.Spec.Ingress[i].Ports {
				setIfNil(&o.Spec.Ingress[i].Ports[j].Protocol, corev1.ProtocolTCP)
			}
		}
	}
}

func setIfNil[T any](field **T, value T) {
	if *field == nil {
		*field = &value
	}
}

func defaultPod(spec *corev1.PodSpec) {
	spec.DNSPolicy = cmp.Or(spec.DNSPolicy, corev1.DNSClusterFirst)
	spec.RestartPolicy = cmp.Or(spec.RestartPolicy, corev1.RestartPolicyAlways)
	if spec.SecurityContext == nil {
		spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	for i := range spec.Volumes {
		if source := spec.Volumes[i].DownwardAPI; source != nil {
			setIfNil(&source.DefaultMode, 0o644)
			for j := range source.Items {
				if ref := source.Items[j].FieldRef; ref != nil {
					ref.APIVersion = cmp.Or(ref.APIVersion, "v1")
				}
			}
		}
		if source := spec.Volumes[i].ConfigMap; source != nil {
			setIfNil(&source.DefaultMode, 0o644)
		}
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i])
	}
}

func defaultContainer(c *corev1.Container) {
	c.ImagePullPolicy = cmp.Or(c.ImagePullPolicy, corev1.PullIfNotPresent)
	c.TerminationMessagePath = cmp.Or(c.TerminationMessagePath, "/dev/termination-log")
	for i := range c.Ports {
		c.Ports[i].Protocol = cmp.Or(c.Ports[i].Protocol, corev1.ProtocolTCP)
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			from.FieldRef.APIVersion = cmp.Or(from.FieldRef.APIVersion, "v1")
		}
	}
}
