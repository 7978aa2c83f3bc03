package environment

// replicaSet is the model of the ReplicaSet controller and its pods. It does not replace pods of an earlier template.
func replicaSet(s *stepper) {
	c := s.counts()
	switch {
	case s.object.Deleting():
	case !s.observed():
		s.step("kube-controller-manager", "is observed by its controller", s.replicaSetStatus(c))
		if c.ready < c.all {
			s.step("kube-controller-manager", "gets a ready pod", s.replicaSetStatus(c.readier(1)), s.unobserved())
		}
	default:
		s.scaleReplicaSet(c)
	}
}

// scaleReplicaSet adds, readies and removes pods.
func (s *stepper) scaleReplicaSet(c counts) {
	switch {
	case c.all < c.desired:
		s.step("kube-controller-manager", "gets a pod", s.replicaSetStatus(c.plus()))
	case c.all > c.desired:
		s.step("kube-controller-manager", "loses a pod", s.replicaSetStatus(c.minus()))
	}
	if c.ready < c.all {
		s.step("kube-controller-manager", "gets a ready pod", s.replicaSetStatus(c.readier(1)))
	}
	if c.ready > 0 {
		s.failure("kube-controller-manager", "loses a ready pod", s.replicaSetStatus(c.readier(-1)))
	}
}

func (s *stepper) replicaSetStatus(c counts) write {
	return s.setStatus(map[string]any{
		"observedGeneration": s.object.Generation(), "replicas": c.all, "fullyLabeledReplicas": orAbsent(c.all),
		"readyReplicas": orAbsent(c.ready), "availableReplicas": orAbsent(c.ready),
	})
}
