package environment

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// jobCounts are the numbers of pods of a job.
type jobCounts struct {
	parallelism, completions, active, succeeded, failed int64
	// uncounted are pods that have succeeded and are not counted yet.
	uncounted []any
}

// job is the model of the Job controller and its pods.
func job(s *stepper) {
	if s.object.Deleting() || s.isTrue("Complete") || s.isTrue("Failed") {
		return
	}
	j := s.jobCounts()
	if n := int64(len(j.uncounted)); n > 0 {
		counted := j
		counted.succeeded, counted.uncounted = j.succeeded+n, []any{}
		s.step("counts pods that have succeeded", s.jobStatus(counted))
	}
	if suspended, _ := s.spec["suspend"].(bool); suspended {
		s.suspendedJob(j)
		return
	}
	switch wanted := min(j.parallelism, j.completions-j.succeeded-int64(len(j.uncounted))); {
	case s.isTrue("Suspended"):
		s.step("is resumed", s.jobStatus(j, condition{name: "Suspended", reason: "JobResumed"}))
	case j.succeeded >= j.completions:
		s.step("completes", s.jobEnd(j, "Complete", "SuccessCriteriaMet", "CompletionsReached"))
	case j.active != wanted:
		j.active = wanted
		s.step("has as many pods as it may", s.jobStatus(j))
	}
	s.runningJob(s.jobCounts())
}

func (s *stepper) jobCounts() jobCounts {
	parallelism := number(s.spec, 1, "parallelism")
	uncounted, _ := object.FieldAt(s.status, "uncountedTerminatedPods", "succeeded").([]any)
	return jobCounts{
		parallelism: parallelism, completions: number(s.spec, max(1, parallelism), "completions"),
		active: number(s.status, 0, "active"), succeeded: number(s.status, 0, "succeeded"), failed: number(s.status, 0, "failed"),
		uncounted: uncounted,
	}
}

// suspendedJob stops the pods first.
func (s *stepper) suspendedJob(j jobCounts) {
	switch {
	case j.active > 0:
		j.active = 0
		s.step("stops its pods", s.jobStatus(j))
	case !s.isTrue("Suspended"):
		s.step("is suspended", s.jobStatus(j, condition{name: "Suspended", true: true, reason: "JobSuspended"}))
	}
	s.runningJob(s.jobCounts())
}

// runningJob has a pod end. A pod that succeeds is counted later.
func (s *stepper) runningJob(j jobCounts) {
	if j.active == 0 {
		return
	}
	done := j
	done.active, done.uncounted = j.active-1, append(slices.Clone(j.uncounted), s.object.UID())
	s.step("has a pod that succeeds", s.jobStatus(done))
	failed := j
	failed.active, failed.failed = j.active-1, j.failed+1
	if j.failed >= number(s.spec, 6, "backoffLimit") {
		s.failure("fails", s.jobEnd(failed, "Failed", "FailureTarget", "BackoffLimitExceeded"))
		return
	}
	s.failure("has a pod that fails", s.jobStatus(failed))
}

func (s *stepper) jobStatus(j jobCounts, set ...condition) apiserver.Request {
	patch := map[string]any{
		"active": orAbsent(j.active), "ready": j.active, "succeeded": orAbsent(j.succeeded), "failed": orAbsent(j.failed), "terminating": 0,
		"uncountedTerminatedPods": map[string]any{"succeeded": j.uncounted}, "startTime": apiserver.Epoch.Format(time.RFC3339),
	}
	if len(set) > 0 {
		patch["conditions"] = s.conditions(set...)
	}
	return s.setStatus(patch)
}

func (s *stepper) jobEnd(j jobCounts, ended, before, reason string) apiserver.Request {
	patch := map[string]any{
		"active": nil, "ready": 0, "succeeded": orAbsent(j.succeeded), "failed": orAbsent(j.failed),
		"conditions": s.conditions(condition{name: before, true: true, reason: reason}, condition{name: ended, true: true, reason: reason}),
	}
	if ended == "Complete" {
		patch["completionTime"] = apiserver.Epoch.Format(time.RFC3339)
	}
	return s.setStatus(patch)
}

// orAbsent leaves out zero, as the API does.
func orAbsent(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}
