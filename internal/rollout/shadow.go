package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// Shadow is what the comparison of the versions has shown of the parents.
type Shadow struct {
	// Compared counts the parents for which both versions were called, or the new one fails. Different counts those
	// with another response, Failed those that only the new version fails for. Failure is about one of them.
	Compared, Different, Failed int
	Failure                     string
	// Retrying counts those whose latest attempts the new version fails, too few to count as failed. RetryingFailure
	// is about one of them.
	Retrying        int
	RetryingFailure string
	// Deletions counts the existing children that the new version would delete, by kind. Held means that the
	// deletion guard would hold them.
	Deletions map[string]int
	Held      bool
	// Examples are the most severe differences.
	Examples []Example
}

// Example is a difference, and how severe it is: 0 is the most.
type Example struct {
	api.RolloutDifference

	Severity int
	// Repeats is how many differences of the same consequence the parent has before it.
	Repeats int
}

// Compares reports whether the responses of a version are compared with those of the one before.
func Compares(s *api.RolloutStatus, version string) bool {
	return s != nil && s.Phase == api.RolloutInShadow && s.To == version
}

// UnderWay reports whether a rollout is neither complete nor rolled back.
func UnderWay(s *api.RolloutStatus) bool {
	return s.Phase == api.RolloutInShadow || s.Phase == api.RolloutStepping
}

// maxExamples is how many differences a status has.
const maxExamples = 5

func (s *Shadow) add(other *Shadow) {
	s.Compared += other.Compared
	s.Different += other.Different
	s.Failed += other.Failed
	s.Failure = firstOf(s.Failure, other.Failure)
	s.Retrying += other.Retrying
	s.RetryingFailure = firstOf(s.RetryingFailure, other.RetryingFailure)
	for kind, n := range other.Deletions {
		if s.Deletions == nil {
			s.Deletions = map[string]int{}
		}
		s.Deletions[kind] += n
	}
	s.Examples = append(s.Examples, other.Examples...)
	if len(s.Examples) > 2*maxExamples {
		s.Examples = s.worst()
	}
}

// worst returns the most severe examples, in an order that does not depend on that of the comparisons. Further ones of
// the same parent are left out first.
func (s *Shadow) worst() []Example {
	slices.SortFunc(s.Examples, func(a, b Example) int { return cmp.Or(a.Repeats-b.Repeats, a.compare(&b)) })
	chosen := s.Examples[:min(len(s.Examples), maxExamples)]
	slices.SortFunc(chosen, func(a, b Example) int { return a.compare(&b) })
	return chosen
}

// compare orders examples as they are shown.
func (e *Example) compare(other *Example) int {
	return cmp.Or(e.Severity-other.Severity, strings.Compare(e.Object, other.Object), strings.Compare(e.Text, other.Text))
}

// Removals is the number of children that the new version would delete.
func (s *Shadow) Removals() int {
	n := 0
	for _, count := range s.Deletions {
		n += count
	}
	return n
}

// deletions returns such as "1 Service, 3 ConfigMaps"; empty for none.
func (s *Shadow) deletions() string {
	var all []string
	for _, kind := range slices.Sorted(maps.Keys(s.Deletions)) {
		n, plural := s.Deletions[kind], "s"
		if n == 1 {
			plural = ""
		}
		all = append(all, fmt.Sprintf("%d %s%s", n, kind, plural))
	}
	return strings.Join(all, ", ")
}

func (s *Shadow) status() *api.RolloutShadowStatus {
	return &api.RolloutShadowStatus{
		Compared: int32(s.Compared), Different: int32(s.Different), Failed: int32(s.Failed), Retrying: int32(s.Retrying),
		Failure: cmp.Or(s.Failure, s.RetryingFailure), WouldDelete: s.deletions(),
		Examples: lists.Map(s.worst(), func(e Example) api.RolloutDifference { return e.RolloutDifference }),
	}
}

// compare compares the versions until that was done for all parents, and its pause is over.
func (in *Input) compare(s *api.RolloutStatus) {
	s.RetryAt = in.RetryAt
	if in.Spec.Shadow == nil {
		in.firstStep(s)
		return
	}
	o := &in.Observed.Shadow
	s.Shadow = o.status()
	if failed := int64(o.Failed) * 100; o.Failed > 0 && failed > int64(errorPercent(in.Spec))*int64(len(in.Observed.Hashes)) {
		in.rollBack(s, fmt.Sprintf("shadow: the new version fails for %d of %d parents: %s", o.Failed, s.Total, o.Failure))
		return
	}
	compared := o.Compared >= len(in.Observed.Hashes)
	if s.Blocked = ""; compared {
		s.Blocked = in.shadowBlocked()
	}
	if compared && s.PausedSince == nil {
		s.PausedSince = in.now()
	}
	if compared && !in.Spec.Paused && s.Blocked == "" && in.Now.Sub(s.PausedSince.Time) >= Pause(in.Spec, s) {
		in.firstStep(s)
		return
	}
	in.describe(s)
}

// shadowBlocked returns why the first step cannot begin; empty if it can.
func (in *Input) shadowBlocked() string {
	o, total := &in.Observed.Shadow, len(in.Observed.Hashes)
	switch limit := in.Spec.Shadow.MaxDifferentPercent; {
	case o.Held:
		return "it would delete " + o.deletions() +
			", which the deletion guard would hold: correct the hooks, or raise the limits in spec.deletionGuard"
	case limit != nil && o.Different*100 > int(*limit)*total:
		return fmt.Sprintf("%d of %d parents get different responses, above spec.rollout.shadow.maxDifferentPercent %d",
			o.Different, total, *limit)
	case o.Failed > 0 && errorPercent(in.Spec) == 100:
		return fmt.Sprintf("the new version fails for %d of %d parents: %s", o.Failed, total, o.Failure)
	}
	return ""
}

func (in *Input) firstStep(s *api.RolloutStatus) {
	s.Phase, s.Step, s.Percent, s.Since, s.PausedSince, s.Blocked = api.RolloutStepping, 1, Steps(in.Spec)[0].Percent, in.now(), nil, ""
	in.count(s)
	in.describe(s)
}

// describeShadow says what the comparison has shown. It changes little while parents are compared, and not by failures
// that may be over after a retry.
func describeShadow(s *api.RolloutStatus) string {
	text := "shadow: the versions are being compared"
	if s.PausedSince != nil {
		text = fmt.Sprintf("shadow: %d parents compared, %d with a different response", s.Shadow.Compared, s.Shadow.Different)
	}
	if s.Shadow.Failed > 0 && s.Blocked == "" {
		text += "; the new version fails: " + s.Shadow.Failure
	}
	if s.Shadow.WouldDelete != "" && s.Blocked == "" {
		text += "; the new version would delete " + s.Shadow.WouldDelete
	}
	return text
}
