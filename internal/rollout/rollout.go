// Package rollout decides how the parents of a controller move from one version of its hooks to the next.
//
// It is pure: Next takes the stored status, what was observed and the time, and returns the next status. The
// manager observes, stores the status and carries it out, one step at a time, so that another process can go on
// from the stored status. Package router calls the version of each parent by its Hash.
package rollout

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

// Observed is what is known of the parents.
type Observed struct {
	// Unknown means that not all parents are known, such as after a restart: nothing can be decided.
	Unknown bool
	// Hashes are those of the parents that a rollout waits for. Next sorts them.
	Hashes []int64
	// Reconciled is how many of the moved parents the new version has reconciled, or fails to as the one before.
	Reconciled int
	// Failed is how many of them fail since they moved. Failure is about one of them.
	Failed  int
	Failure string
	// Held is about a moved parent whose deletions are held, and Matching about one for which rollback.when is
	// true; empty for none.
	Held, Matching string
	// Blocked is why the rollout cannot go on, such as an error of rollback.when; empty if it can.
	Blocked string
	// Shadow is what the comparison of the versions has shown.
	Shadow Shadow
}

// Add adds what is known of other parents. Of two texts the first by name stays, since a message must not flap.
func (o *Observed) Add(other Observed) {
	o.Unknown = o.Unknown || other.Unknown
	o.Hashes = append(o.Hashes, other.Hashes...)
	o.Reconciled += other.Reconciled
	o.Failed += other.Failed
	o.Failure, o.Held = firstOf(o.Failure, other.Failure), firstOf(o.Held, other.Held)
	o.Matching, o.Blocked = firstOf(o.Matching, other.Matching), firstOf(o.Blocked, other.Blocked)
	o.Shadow.add(&other.Shadow)
}

func firstOf(a, b string) string {
	if a == "" || b != "" && b < a {
		return b
	}
	return a
}

// Input is what Next decides on.
type Input struct {
	// Spec is nil for a controller without rollouts.
	Spec *api.Rollout
	// Version is the name of the version in the spec.
	Version string
	// RetryAt is the value of the annotation that requests to start again after a rollback.
	RetryAt string
	// Status is the stored status; nil for none.
	Status   *api.RolloutStatus
	Observed Observed
	Now      time.Time
}

// CompleteVersion returns the version that was rolled out last; empty if none was.
func CompleteVersion(s *api.RolloutStatus) string {
	switch {
	case s == nil:
		return ""
	case s.Phase == api.RolloutComplete:
		return s.To
	}
	return s.From
}

// Used returns the versions that a status names.
func Used(s *api.RolloutStatus) []string {
	if s == nil {
		return nil
	}
	return []string{s.From, s.To, s.Previous}
}

// SameStep reports whether two statuses are of the same step of the same rollout. In the shadow, the pause is a step
// of its own.
func SameStep(a, b *api.RolloutStatus) bool {
	if a != nil && b != nil && b.Phase == api.RolloutInShadow && (a.PausedSince == nil) != (b.PausedSince == nil) {
		return false
	}
	return a != nil && b != nil && a.To == b.To && a.Phase == b.Phase && a.Percent == b.Percent && a.RetryAt == b.RetryAt
}

// NotStored returns the status of a rollout that does not begin since its version cannot be stored.
func NotStored(before *api.RolloutStatus, err error) *api.RolloutStatus {
	s := cmp.Or(before, &api.RolloutStatus{}).DeepCopy()
	s.Blocked = err.Error()
	s.Message = "blocked: " + s.Blocked
	return s
}

// Former returns the version that reconciles the parents that have not moved to the given one; empty if all
// have.
func Former(s *api.RolloutStatus, version string) string {
	if complete := CompleteVersion(s); complete != version {
		return complete
	}
	return ""
}

// Position returns up to where parents have moved to a version.
func Position(s *api.RolloutStatus, version string) int64 {
	switch {
	case Former(s, version) == "":
		return End
	case s.To != version:
		return 0 // The rollout of this version has not begun.
	}
	return s.Position
}

// Next returns the status that follows; nil for a controller without rollouts.
func Next(in *Input) *api.RolloutStatus {
	slices.Sort(in.Observed.Hashes)
	s := in.Status
	switch {
	case in.Spec == nil:
		return nil
	case CompleteVersion(s) == "" || CompleteVersion(s) == in.Version:
		if s := in.Status; s != nil && s.Phase == api.RolloutComplete && s.Blocked == "" {
			return s.DeepCopy()
		}
		return in.completed(in.Version, previousOf(in.Status))
	case s.To != in.Version || s.Phase == api.RolloutRolledBack && in.RetryAt != s.RetryAt:
		return in.start()
	case in.Observed.Unknown:
		return s.DeepCopy()
	}
	next := s.DeepCopy()
	in.count(next)
	switch s.Phase {
	case api.RolloutInShadow:
		in.compare(next)
	case api.RolloutStepping:
		in.step(next)
	}
	return next
}

func (in *Input) completed(version, previous string) *api.RolloutStatus {
	return &api.RolloutStatus{
		Phase: api.RolloutComplete, To: version, Previous: previous, RetryAt: in.RetryAt, Since: in.now(),
		Message: "all parents are at version " + version,
	}
}

func previousOf(s *api.RolloutStatus) string {
	if s == nil {
		return ""
	}
	return s.Previous
}

func (in *Input) start() *api.RolloutStatus {
	s := &api.RolloutStatus{From: CompleteVersion(in.Status), To: in.Version, Previous: previousOf(in.Status), RetryAt: in.RetryAt,
		Since: in.now()}
	if in.Spec.Shadow == nil {
		in.firstStep(s)
		return s
	}
	s.Phase, s.Shadow = api.RolloutInShadow, &api.RolloutShadowStatus{}
	in.count(s)
	in.describe(s)
	return s
}

// step watches the parents of a step and moves more of them.
func (in *Input) step(s *api.RolloutStatus) {
	s.RetryAt = in.RetryAt
	in.readSteps(s)
	if why := in.trouble(s); why != "" {
		in.rollBack(s, why)
		return
	}
	s.Blocked = in.blocked()
	if !in.Spec.Paused && s.Blocked == "" {
		in.advance(s)
	}
	in.describe(s)
}

// trouble returns why the rollout has to be rolled back; empty if it has not.
func (in *Input) trouble(s *api.RolloutStatus) string {
	o := in.Observed
	switch {
	case o.Held != "":
		return o.Held
	case o.Matching != "":
		return o.Matching
	case o.Failed > 0 && int64(o.Failed)*100 > int64(errorPercent(in.Spec))*int64(max(s.Moved, 1)):
		return fmt.Sprintf("%d of %d moved parents fail: %s", o.Failed, s.Moved, o.Failure)
	}
	return ""
}

// blocked returns why the rollout cannot go on; empty if it can.
func (in *Input) blocked() string {
	o := in.Observed
	if o.Blocked == "" && o.Failed > 0 && errorPercent(in.Spec) == 100 {
		return fmt.Sprintf("%d moved parents fail: %s", o.Failed, o.Failure)
	}
	return o.Blocked
}

func (in *Input) rollBack(s *api.RolloutStatus, why string) {
	s.Phase, s.Step, s.Percent, s.Position, s.Moved, s.Reconciled = api.RolloutRolledBack, 0, 0, 0, 0, 0
	s.Blocked, s.PausedSince, s.Since, s.Message = "", nil, in.now(), why
}

// advance moves more parents, or begins the next step when those of the current one have been reconciled and
// its pause is over.
func (in *Input) advance(s *api.RolloutStatus) {
	hashes := in.Observed.Hashes
	want := (len(hashes)*int(s.Percent) + 99) / 100
	if moved := int(s.Moved); moved < want || s.Percent == 100 && s.Position < End {
		s.PausedSince = nil
		next := min(want, moved+ParentsPerSecond(in.Spec))
		if s.Position = max(s.Position, after(hashes, next)); next == len(hashes) && s.Percent == 100 {
			s.Position = End
		}
		in.count(s)
		return
	}
	if int(s.Reconciled)+in.Observed.Failed < int(s.Moved) {
		return
	}
	if s.PausedSince == nil {
		s.PausedSince = in.now()
	}
	if in.Now.Sub(s.PausedSince.Time) >= Pause(in.Spec, s) {
		in.nextStep(s)
	}
}

// nextStep begins the next step; after the last the rollout is complete.
func (in *Input) nextStep(s *api.RolloutStatus) {
	if s.Percent == 100 {
		*s = *in.completed(s.To, s.From)
		return
	}
	steps := Steps(in.Spec)
	i := slices.IndexFunc(steps, func(one api.RolloutStep) bool { return one.Percent > s.Percent })
	s.Percent, s.Since, s.PausedSince = steps[i].Percent, in.now(), nil
	in.readSteps(s)
}

// readSteps finds the current step in the spec, which may have changed. The percentage stays.
func (in *Input) readSteps(s *api.RolloutStatus) {
	s.Step = 0
	for i, one := range Steps(in.Spec) {
		if one.Percent <= s.Percent {
			s.Step = int32(i + 1)
		}
	}
	s.Step = max(s.Step, 1)
}

// count sets how many parents have moved.
func (in *Input) count(s *api.RolloutStatus) {
	total := len(in.Observed.Hashes)
	s.Total, s.Moved = int32(total), int32(movedAt(in.Observed.Hashes, s.Position))
	s.Reconciled = int32(min(in.Observed.Reconciled, int(s.Moved)))
	if s.Phase != api.RolloutStepping {
		s.Moved, s.Reconciled = 0, 0
	}
}

// describe says what the rollout waits for.
func (in *Input) describe(s *api.RolloutStatus) {
	if !UnderWay(s) {
		return
	}
	where := fmt.Sprintf("step %d of %d, %d %% of the parents", s.Step, len(Steps(in.Spec)), s.Percent)
	if s.Phase == api.RolloutInShadow {
		where = describeShadow(s)
	}
	switch {
	case s.Blocked != "":
		s.Message = where + ": blocked: " + s.Blocked
	case in.Spec.Paused:
		s.Message = where + ": paused by spec.rollout.paused"
	default:
		s.Message = where
	}
}

func (in *Input) now() *metav1.Time { return new(metav1.NewTime(in.Now.Truncate(time.Second))) }

// Steps returns the steps of a rollout, with the default.
func Steps(spec *api.Rollout) []api.RolloutStep {
	if spec != nil && len(spec.Steps) > 0 {
		return spec.Steps
	}
	return []api.RolloutStep{{Percent: 5}, {Percent: 50}, {Percent: 100}}
}

// Pause returns how long the shadow, or what has moved by the present step, is observed: as long as the last step which
// does not exceed its percentage.
func Pause(spec *api.Rollout, s *api.RolloutStatus) (length time.Duration) {
	if s.Phase == api.RolloutInShadow && spec.Shadow != nil {
		return cmp.Or(spec.Shadow.Pause.Duration.Duration, api.DefaultRolloutPause)
	}
	for _, one := range Steps(spec) {
		if one.Percent <= s.Percent {
			length = cmp.Or(one.Pause.Duration.Duration, api.DefaultRolloutPause)
		}
	}
	return length
}

// ParentsPerSecond returns how many parents move per second.
func ParentsPerSecond(spec *api.Rollout) int {
	return int(cmp.Or(spec.ParentsPerSecond, api.DefaultParentsPerSecond))
}

func errorPercent(spec *api.Rollout) int32 {
	if p := spec.Rollback.ErrorPercent; p != nil {
		return *p
	}
	return api.DefaultRollbackErrorPercent
}

// Condition returns the condition Progressing of a status: whether it is True, and its reason and message.
func Condition(spec *api.Rollout, s *api.RolloutStatus) (ok bool, reason, message string) {
	switch {
	case s.Phase == api.RolloutComplete && s.Blocked == "":
		return true, api.ReasonRolloutComplete, s.Message
	case s.Phase == api.RolloutRolledBack && s.Blocked == "":
		return false, api.ReasonRolledBack, "the version before reconciles all parents: " + s.Message
	case s.Blocked != "":
		return false, api.ReasonRolloutBlocked, s.Message
	case spec != nil && spec.Paused:
		return false, api.ReasonRolloutPaused, s.Message
	case s.Phase == api.RolloutInShadow:
		return true, api.ReasonRolloutShadow, s.Message
	}
	return true, api.ReasonRolloutStepping, s.Message
}

// End is the position at which all parents have moved.
const End int64 = 1 << 32

// Hash returns the place of a parent among all parents, less than End. It is the same in every process and in
// every rollout.
func Hash(uid string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(uid)) // Write never returns an error.
	return int64(h.Sum32())
}

// Moved reports whether a parent has moved at a position.
func Moved(uid string, position int64) bool { return position >= End || Hash(uid) < position }

// after returns the position at which a number of parents have moved. Hashes are sorted.
func after(hashes []int64, moved int) int64 {
	if moved <= 0 {
		return 0
	}
	return hashes[min(moved, len(hashes))-1] + 1
}

// movedAt returns how many of the parents have moved at a position.
func movedAt(hashes []int64, position int64) int {
	n, _ := slices.BinarySearch(hashes, position)
	return n
}
