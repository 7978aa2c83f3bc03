package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// The healths of objects, in the words of kstatus.
const (
	Current     = "Current"
	InProgress  = "InProgress"
	FailedState = "Failed"
	Terminating = "Terminating"
	Unknown     = "Unknown"
)

// healthOf is how an object is doing, and why; empty for no word on it.
type healthOf func(*shape) (health, message string)

// HealthOf is how an object is doing by its status, and why: by what is known of its
// kind, or by the conventions for conditions.
//
// The library kstatus says the same. It is not used, for it wants newer releases of
// all that is of Kubernetes than this module has.
func HealthOf(o *object.Object) (health, message string) {
	if o.Deleting() {
		return Terminating, "it is being deleted"
	}
	var s shape
	if err := json.Unmarshal(o.JSON(), &s); err != nil {
		return Unknown, "its status is not as that of other objects"
	}
	if observed := s.Status.ObservedGeneration; observed.given && observed.of < s.Metadata.Generation {
		return InProgress, "what is wanted now has not been looked at yet"
	}
	kinds := map[object.GroupKind]healthOf{
		{Group: "apps", Kind: "Deployment"}:                     (*shape).deployment,
		{Group: "apps", Kind: "StatefulSet"}:                    (*shape).statefulSet,
		{Group: "apps", Kind: "DaemonSet"}:                      (*shape).daemonSet,
		{Group: "apps", Kind: "ReplicaSet"}:                     (*shape).replicaSet,
		{Group: "", Kind: "ReplicationController"}:              (*shape).replicaSet,
		{Group: "batch", Kind: "Job"}:                           (*shape).job,
		{Group: "", Kind: "Pod"}:                                (*shape).pod,
		{Group: "", Kind: "PersistentVolumeClaim"}:              (*shape).claim,
		{Group: "", Kind: "Service"}:                            (*shape).service,
		{Group: "", Kind: "Namespace"}:                          (*shape).conventions,
		{Group: "policy", Kind: "PodDisruptionBudget"}:          (*shape).always,
		{Group: "autoscaling", Kind: "HorizontalPodAutoscaler"}: (*shape).always,
	}
	if by := kinds[o.GroupKind()]; by != nil {
		return by(&s)
	}
	return s.conventions()
}

// shape is what of an object its health is told by. Who has a field of another type
// has another health: it is read leniently.
type shape struct {
	Metadata struct {
		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Spec struct {
		Replicas    lenient[int64]  `json:"replicas"`
		Completions lenient[int64]  `json:"completions"`
		Suspend     lenient[bool]   `json:"suspend"`
		Type        lenient[string] `json:"type"`
		ClusterIP   lenient[string] `json:"clusterIP"`
	} `json:"spec"`
	Status status `json:"status"`
}

type status struct {
	ObservedGeneration lenient[int64]  `json:"observedGeneration"`
	Phase              lenient[string] `json:"phase"`
	Message            lenient[string] `json:"message"`
	Reason             lenient[string] `json:"reason"`

	Replicas               lenient[int64]  `json:"replicas"`
	ReadyReplicas          lenient[int64]  `json:"readyReplicas"`
	UpdatedReplicas        lenient[int64]  `json:"updatedReplicas"`
	AvailableReplicas      lenient[int64]  `json:"availableReplicas"`
	CurrentRevision        lenient[string] `json:"currentRevision"`
	UpdateRevision         lenient[string] `json:"updateRevision"`
	DesiredNumberScheduled lenient[int64]  `json:"desiredNumberScheduled"`
	UpdatedNumberScheduled lenient[int64]  `json:"updatedNumberScheduled"`
	NumberAvailable        lenient[int64]  `json:"numberAvailable"`
	Succeeded              lenient[int64]  `json:"succeeded"`
	Active                 lenient[int64]  `json:"active"`
	StartTime              lenient[string] `json:"startTime"`

	Conditions        lenient[[]Condition]       `json:"conditions"`
	ContainerStatuses lenient[[]containerStatus] `json:"containerStatuses"`
	LoadBalancer      lenient[struct {
		Ingress []json.RawMessage `json:"ingress"`
	}] `json:"loadBalancer"`
}

type containerStatus struct {
	Name  string `json:"name"`
	State struct {
		Waiting *struct {
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"waiting"`
	} `json:"state"`
}

// lenient is a field that is missing if it is of another type: what others put into a
// status is their own business.
type lenient[T any] struct {
	of    T
	given bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *lenient[T]) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &l.of) != nil {
		var none T
		l.of = none
		return nil //nolint:nilerr // A field of another type is one that is missing.
	}
	l.given = string(data) != "null"
	return nil
}

// or is the value, or another one where there is none.
func (l lenient[T]) or(other T) T {
	if l.given {
		return l.of
	}
	return other
}

// condition is the one of a type; false if there is none.
func (s *shape) condition(kind string) (Condition, bool) {
	for _, c := range s.Status.Conditions.of {
		if c.Type == kind {
			return c, true
		}
	}
	return Condition{}, false
}

// said is what a condition says, in a line.
func said(c Condition) string { return cmp.Or(c.Message, c.Reason, c.Type) }

// conventions are those for conditions: Stalled and Reconciling, which kstatus asks
// for first, then what says that the object does its work.
func (s *shape) conventions() (health, message string) {
	if c, is := s.condition("Stalled"); is && c.Status == "True" {
		return FailedState, said(c)
	}
	if c, is := s.condition("Reconciling"); is && c.Status == "True" {
		return InProgress, said(c)
	}
	for _, kind := range [...]string{"Ready", "Available"} {
		c, is := s.condition(kind)
		switch {
		case !is:
		case c.Status == "True":
			return Current, ""
		case c.Status == "False" || c.Status == "Unknown":
			return InProgress, said(c)
		}
	}
	if c, is := s.condition("Failed"); is && c.Status == "True" {
		return FailedState, said(c)
	}
	return Current, ""
}

func (s *shape) always() (health, message string) { return Current, "" }

// counts says how many of something there are, as long as they are too few.
func counts(have, want int64, what string) (health, message string) {
	if have < want {
		return InProgress, fmt.Sprintf("%d of %d %s", have, want, what)
	}
	return Current, ""
}

// first is the first of some findings that is not well.
func first(findings ...func() (string, string)) (health, message string) {
	for _, find := range findings {
		if health, message = find(); health != Current {
			return health, message
		}
	}
	return Current, ""
}

func (s *shape) deployment() (health, message string) {
	if c, is := s.condition("Progressing"); is && c.Reason == "ProgressDeadlineExceeded" {
		return FailedState, said(c)
	}
	if c, is := s.condition("ReplicaFailure"); is && c.Status == "True" {
		return FailedState, said(c)
	}
	want, st := s.Spec.Replicas.or(1), &s.Status
	return first(
		func() (string, string) { return counts(st.UpdatedReplicas.of, want, "replicas updated") },
		func() (string, string) {
			if old := st.Replicas.of - st.UpdatedReplicas.of; old > 0 {
				return InProgress, fmt.Sprintf("%d old replicas are still to go", old)
			}
			return Current, ""
		},
		func() (string, string) { return counts(st.AvailableReplicas.of, want, "replicas available") },
	)
}

func (s *shape) statefulSet() (health, message string) {
	want, st := s.Spec.Replicas.or(1), &s.Status
	if health, message = counts(st.ReadyReplicas.of, want, "replicas ready"); health != Current {
		return health, message
	}
	if st.UpdateRevision.of != "" && st.CurrentRevision.of != st.UpdateRevision.of {
		return counts(st.UpdatedReplicas.of, want, "replicas updated")
	}
	return Current, ""
}

func (s *shape) daemonSet() (health, message string) {
	want, st := s.Status.DesiredNumberScheduled.of, &s.Status
	return first(
		func() (string, string) { return counts(st.UpdatedNumberScheduled.of, want, "pods updated") },
		func() (string, string) { return counts(st.NumberAvailable.of, want, "pods available") },
	)
}

func (s *shape) replicaSet() (health, message string) {
	if c, is := s.condition("ReplicaFailure"); is && c.Status == "True" {
		return FailedState, said(c)
	}
	return counts(s.Status.AvailableReplicas.of, s.Spec.Replicas.or(1), "replicas available")
}

// job is well once it has begun, until it fails: kstatus, too, takes one at work for
// what it is to be.
func (s *shape) job() (health, message string) {
	for _, kind := range [...]string{"Failed", "FailureTarget"} {
		if c, is := s.condition(kind); is && c.Status == "True" {
			return FailedState, said(c)
		}
	}
	if c, is := s.condition("Complete"); is && c.Status == "True" {
		return Current, "complete"
	}
	if s.Spec.Suspend.of {
		return Current, "suspended"
	}
	if s.Status.StartTime.of == "" {
		return InProgress, "not begun"
	}
	return Current, fmt.Sprintf("%d of %d done, %d at work", s.Status.Succeeded.of, s.Spec.Completions.or(1), s.Status.Active.of)
}

// stuck are the reasons for which a container waits that do not go by themselves.
func stuck(reason string) bool {
	switch reason {
	case "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError", "CreateContainerError":
		return true
	}
	return false
}

func (s *shape) pod() (health, message string) {
	switch s.Status.Phase.of {
	case "Succeeded":
		return Current, "it has done its work"
	case "Failed":
		return FailedState, cmp.Or(s.Status.Message.of, s.Status.Reason.of, "it failed")
	}
	for _, c := range s.Status.ContainerStatuses.of {
		if w := c.State.Waiting; w != nil && stuck(w.Reason) {
			return FailedState, "container " + c.Name + ": " + w.Reason
		}
	}
	if c, is := s.condition("Ready"); is && c.Status == "True" {
		return Current, ""
	}
	if c, is := s.condition("PodScheduled"); is && c.Status == "False" {
		return InProgress, said(c)
	}
	return InProgress, cmp.Or(s.Status.Phase.of, "Pending")
}

func (s *shape) claim() (health, message string) {
	switch phase := s.Status.Phase.of; phase {
	case "Bound":
		return Current, ""
	case "Lost":
		return FailedState, "its volume is lost"
	default:
		return InProgress, cmp.Or(phase, "not bound")
	}
}

func (s *shape) service() (health, message string) {
	if s.Spec.Type.of == "LoadBalancer" && len(s.Status.LoadBalancer.of.Ingress) == 0 {
		return InProgress, "the load balancer has no address yet"
	}
	return Current, ""
}
