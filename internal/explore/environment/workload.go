package environment

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// counts are the numbers of pods in the status of a workload. Pods that are not updated are outdated.
type counts struct{ desired, all, updated, ready int64 }

func (s *stepper) counts() counts {
	return counts{
		desired: number(s.spec, 1, "replicas"), all: number(s.status, 0, "replicas"),
		updated: number(s.status, 0, "updatedReplicas"), ready: number(s.status, 0, "readyReplicas"),
	}
}

// plus returns the counts with one more pod of the present template, which is not ready yet.
func (c counts) plus() counts {
	c.all++
	c.updated++
	return c
}

// minus returns the counts with one pod fewer, at best one that is not ready.
func (c counts) minus() counts {
	c.all--
	c.updated, c.ready = min(c.updated, c.all), min(c.ready, c.all)
	return c
}

// readier returns the counts with more or fewer ready pods.
func (c counts) readier(n int64) counts {
	c.ready += n
	return c
}

// deployment is the model of the Deployment controller and the pods of its ReplicaSets. The condition Progressing
// names the ReplicaSet of the present template, as in a cluster.
func deployment(s *stepper) {
	c := s.counts()
	switch {
	case s.object.Deleting():
	case !s.observed():
		s.observeDeployment(c)
	default:
		s.scaleDeployment(c)
		s.readyDeployment(c)
	}
}

// observeDeployment has the controller see a new spec. A new template makes all pods outdated.
func (s *stepper) observeDeployment(c counts) {
	if !strings.Contains(text(s.find("Progressing"), "message"), `"`+s.revision()+`"`) {
		c.updated = 0
	}
	s.step("is observed by its controller", s.deploymentStatus(c, false))
	if before := s.counts(); before.ready < before.all {
		s.step("gets a ready pod", s.deploymentStatus(before.readier(1), false), s.unobserved())
	}
}

// unobserved restores the generation that the status was about: pods go on before the controller sees a new spec.
func (s *stepper) unobserved() apiserver.Request {
	return s.setStatus(map[string]any{"observedGeneration": s.status["observedGeneration"]})
}

// scaleDeployment adds and removes a pod, as the strategy allows.
func (s *stepper) scaleDeployment(c counts) {
	surge, unavailable := s.rollingUpdate(c.desired)
	outdated := c.all - c.updated
	paused, _ := s.spec["paused"].(bool)
	if text(s.spec, "strategy", "type") == "Recreate" {
		surge, unavailable = 0, c.desired
		if outdated > 0 && !paused {
			c.desired = 0
		}
	}
	if c.all > c.desired && outdated == 0 || c.all > c.desired+surge+1 {
		s.step("loses a pod", s.deploymentStatus(c.minus(), false))
		return
	}
	removes := outdated > 0 && !paused && (c.ready < c.all || c.ready > c.desired-unavailable)
	most := c.desired + surge
	if removes {
		most++ // The status may show a new pod before it shows that an old one is gone.
	}
	if c.updated < c.desired && c.all < most && (!paused || outdated == 0) {
		s.step("gets a pod", s.deploymentStatus(c.plus(), false))
	}
	if removes {
		s.step("loses an outdated pod", s.deploymentStatus(c.minus(), false))
	}
}

// rollingUpdate returns by how many pods an update may exceed the desired number, and how many may be unavailable.
func (s *stepper) rollingUpdate(desired int64) (surge, unavailable int64) {
	quarter := intstr.FromString("25%")
	surge = s.scaled(desired, quarter, true, "strategy", "rollingUpdate", "maxSurge")
	unavailable = s.scaled(desired, quarter, false, "strategy", "rollingUpdate", "maxUnavailable")
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// scaled returns a number of the spec, which may be a percentage of the desired number, rounded up or down.
func (s *stepper) scaled(desired int64, absent intstr.IntOrString, up bool, path ...string) int64 {
	value := absent
	switch given := object.FieldAt(s.spec, path...).(type) {
	case string:
		value = intstr.FromString(given)
	case nil:
	default:
		value = intstr.FromInt32(int32(number(s.spec, 0, path...)))
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(&value, int(desired), up)
	if err != nil {
		return 0 // The API server would not have stored it.
	}
	return int64(n)
}

// readyDeployment makes a pod ready, or not.
func (s *stepper) readyDeployment(c counts) {
	if c.ready < c.all {
		s.step("gets a ready pod", s.deploymentStatus(c.readier(1), false))
		s.failure("exceeds its progress deadline", s.deploymentStatus(c, true))
	}
	if c.ready > 0 {
		s.failure("loses a ready pod", s.deploymentStatus(c.readier(-1), false))
	}
}

func (s *stepper) deploymentStatus(c counts, late bool) apiserver.Request {
	desired := number(s.spec, 1, "replicas")
	progressing := condition{name: "Progressing", true: !late, reason: "ReplicaSetUpdated", message: `ReplicaSet "` + s.revision() +
		`" is progressing.`}
	switch {
	case late:
		progressing.reason, progressing.message = "ProgressDeadlineExceeded", `ReplicaSet "`+s.revision()+`" has timed out progressing.`
	case c.updated == desired && c.ready == desired && c.all == desired:
		progressing.reason, progressing.message = "NewReplicaSetAvailable", `ReplicaSet "`+s.revision()+`" has successfully progressed.`
	}
	available := condition{name: "Available", true: true, reason: "MinimumReplicasAvailable",
		message: "Deployment has minimum availability."}
	if _, unavailable := s.rollingUpdate(desired); c.ready < desired-unavailable {
		available = condition{name: "Available", reason: "MinimumReplicasUnavailable",
			message: "Deployment does not have minimum availability."}
	}
	return s.setStatus(map[string]any{
		"observedGeneration": s.object.Generation(), "replicas": orAbsent(c.all), "updatedReplicas": orAbsent(c.updated),
		"readyReplicas": orAbsent(c.ready), "availableReplicas": orAbsent(c.ready), "unavailableReplicas": orAbsent(max(0, c.all-c.ready)),
		"conditions": s.conditions(available, progressing),
	})
}

// statefulSet is the model of the StatefulSet controller and its pods, which come and go one by one.
func statefulSet(s *stepper) {
	c := s.counts()
	switch {
	case s.object.Deleting():
	case !s.observed():
		s.observeStatefulSet(c)
	default:
		s.scaleStatefulSet(c)
		if c.ready > 0 {
			s.failure("loses a ready pod", s.statefulSetStatus(c.readier(-1)))
		}
	}
}

// observeStatefulSet has the controller see a new spec. If it has changed before the first status, the controller
// may have made a pod of the earlier one.
func (s *stepper) observeStatefulSet(c counts) {
	if c.ready < c.all {
		s.step("gets a ready pod", s.statefulSetStatus(c.readier(1)), s.unobserved(),
			s.setStatus(map[string]any{"updateRevision": s.status["updateRevision"], "currentRevision": s.status["currentRevision"]}))
	}
	if text(s.status, "updateRevision") != s.revision() {
		c.updated = 0
	}
	s.step("is observed by its controller", s.statefulSetStatus(c))
	if text(s.status, "currentRevision") == "" && s.object.Generation() > 1 {
		c.all++
		s.step("is observed by its controller, which has made an outdated pod", s.statefulSetStatus(c),
			s.setStatus(map[string]any{"currentRevision": s.object.Name() + "-earlier", "currentReplicas": 1}))
	}
}

// scaleStatefulSet adds, readies and removes pods. Since Kubernetes 1.37, an update removes as many outdated pods at once
// as may be unavailable.
func (s *stepper) scaleStatefulSet(c counts) {
	switch {
	case c.ready < c.all:
		s.step("gets a ready pod", s.statefulSetStatus(c.readier(1)))
	case c.all < c.desired:
		s.step("gets a pod", s.statefulSetStatus(c.plus()))
	}
	switch outdated := c.all - c.updated; {
	case c.all > c.desired:
		s.step("loses its last pod", s.statefulSetStatus(c.minus()))
	case outdated > 0 && c.desired-c.all < s.unavailable(c.desired) && text(s.spec, "updateStrategy", "type") != "OnDelete":
		s.step("loses an outdated pod", s.statefulSetStatus(c.minus()))
	}
}

// unavailable returns how many pods of a StatefulSet an update may make unavailable at once.
func (s *stepper) unavailable(desired int64) int64 {
	return max(1, s.scaled(desired, intstr.FromInt32(1), false, "updateStrategy", "rollingUpdate", "maxUnavailable"))
}

// statefulSetStatus sets counts and revisions. The current revision is that of before an update.
func (s *stepper) statefulSetStatus(c counts) apiserver.Request {
	current := text(s.status, "currentRevision")
	if current == "" || c.updated == c.desired && c.all == c.desired && c.ready == c.all {
		current = s.revision()
	}
	of := c.all - c.updated
	if current == s.revision() {
		of = c.updated
	}
	return s.setStatus(map[string]any{
		"observedGeneration": s.object.Generation(), "replicas": c.all, "readyReplicas": orAbsent(c.ready), "availableReplicas": c.ready,
		"updatedReplicas": orAbsent(c.updated), "currentReplicas": orAbsent(of), "currentRevision": current, "updateRevision": s.revision(),
		"collisionCount": 0,
	})
}

// replicaSet is the model of the ReplicaSet controller and its pods. It does not replace pods of an earlier template.
func replicaSet(s *stepper) {
	c := s.counts()
	switch {
	case s.object.Deleting():
	case !s.observed():
		s.step("is observed by its controller", s.replicaSetStatus(c))
		if c.ready < c.all {
			s.step("gets a ready pod", s.replicaSetStatus(c.readier(1)), s.unobserved())
		}
	default:
		s.scaleReplicaSet(c)
	}
}

// scaleReplicaSet adds, readies and removes pods.
func (s *stepper) scaleReplicaSet(c counts) {
	switch {
	case c.all < c.desired:
		s.step("gets a pod", s.replicaSetStatus(c.plus()))
	case c.all > c.desired:
		s.step("loses a pod", s.replicaSetStatus(c.minus()))
	}
	if c.ready < c.all {
		s.step("gets a ready pod", s.replicaSetStatus(c.readier(1)))
	}
	if c.ready > 0 {
		s.failure("loses a ready pod", s.replicaSetStatus(c.readier(-1)))
	}
}

func (s *stepper) replicaSetStatus(c counts) apiserver.Request {
	return s.setStatus(map[string]any{
		"observedGeneration": s.object.Generation(), "replicas": c.all, "fullyLabeledReplicas": orAbsent(c.all),
		"readyReplicas": orAbsent(c.ready), "availableReplicas": orAbsent(c.ready),
	})
}
