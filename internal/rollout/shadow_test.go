package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

// inShadow returns a model of 20 parents whose rollout to v2 is in the shadow.
func inShadow(t *testing.T, spec api.Rollout) *model {
	t.Helper()
	if spec.Shadow == nil {
		spec.Shadow = &api.RolloutShadow{Pause: api.PositiveDuration{Duration: metav1.Duration{Duration: 10 * time.Second}}}
	}
	m := newModel(20, spec)
	m.version = "v2"
	if s := m.tick(); s.Phase != api.RolloutInShadow || s.Step != 0 || Position(s, "v2") != 0 || !Compares(s, "v2") || Compares(s, "v1") {
		t.Fatalf("the rollout begins: %+v", s)
	}
	return m
}

// tickWith ticks with what the comparison has shown.
func (m *model) tickWith(shadow Shadow) *api.RolloutStatus {
	m.now = m.now.Add(time.Second)
	in := m.input()
	in.Observed.Shadow = shadow
	m.status = Next(in)
	return m.status
}

func TestShadowEndsWhenAllWereComparedAndThePauseIsOver(t *testing.T) {
	m := inShadow(t, api.Rollout{})
	for range 60 {
		if s := m.tickWith(Shadow{Compared: 19}); s.Phase != api.RolloutInShadow || s.PausedSince != nil || s.Moved != 0 {
			t.Fatalf("one parent is not compared: %+v", s)
		}
	}
	before := m.status
	if s := m.tickWith(Shadow{Compared: 20, Different: 20}); s.PausedSince == nil || SameStep(before, s) || !strings.Contains(s.Message, "20 parents compared, 20 with a different response") {
		t.Fatalf("all are compared: %+v", s)
	}
	for range 9 {
		if s := m.tickWith(Shadow{Compared: 20, Different: 20}); s.Phase != api.RolloutInShadow {
			t.Fatalf("the pause is not over: %+v", s)
		}
	}
	s := m.tickWith(Shadow{Compared: 20, Different: 20})
	if s.Phase != api.RolloutStepping || s.Step != 1 || s.Percent != 5 || s.PausedSince != nil || s.Shadow.Different != 20 {
		t.Errorf("the first step: %+v", s)
	}
}

// After a restart nothing is known of the comparisons, and the rollout waits until all were made again.
func TestShadowAfterARestart(t *testing.T) {
	m := inShadow(t, api.Rollout{})
	m.tickWith(Shadow{Compared: 20})
	for range 30 {
		if s := m.tickWith(Shadow{Compared: 3}); s.Phase != api.RolloutInShadow {
			t.Fatalf("3 of 20 are compared: %+v", s)
		}
	}
	if s := m.tickWith(Shadow{Compared: 20}); s.Phase != api.RolloutStepping {
		t.Errorf("all are compared again: %+v", s)
	}
}

func TestShadowStops(t *testing.T) {
	percent := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		spec   api.Rollout
		shadow Shadow
		want   string
	}{
		"differences":             {api.Rollout{}, Shadow{Compared: 20, Different: 20}, "Stepping: step 1"},
		"paused":                  {api.Rollout{Paused: true}, Shadow{Compared: 20}, "Shadow: paused by spec.rollout.paused"},
		"too many differences":    {api.Rollout{Shadow: &api.RolloutShadow{MaxDifferentPercent: percent(10)}}, Shadow{Compared: 20, Different: 3}, "Shadow: blocked: 3 of 20 parents get different"},
		"as many as are allowed":  {api.Rollout{Shadow: &api.RolloutShadow{MaxDifferentPercent: percent(10)}}, Shadow{Compared: 20, Different: 2}, "Stepping: step 1"},
		"no difference allowed":   {api.Rollout{Shadow: &api.RolloutShadow{MaxDifferentPercent: percent(0)}}, Shadow{Compared: 20, Different: 1}, "Shadow: blocked"},
		"deletions":               {api.Rollout{}, Shadow{Compared: 20, Deletions: map[string]int{"Service": 1, "ConfigMap": 3}, Held: true}, "Shadow: blocked: it would delete 3 ConfigMaps, 1 Service,"},
		"few deletions":           {api.Rollout{}, Shadow{Compared: 20, Deletions: map[string]int{"Service": 1}}, "Stepping: step 1"},
		"failures":                {api.Rollout{}, Shadow{Compared: 3, Failed: 3, Failure: "Team a: broken"}, "RolledBack: shadow: the new version fails for 3 of 20 parents: Team a: broken"},
		"failures for now":        {api.Rollout{}, Shadow{Compared: 3, Retrying: 3, RetryingFailure: "Team a: refused"}, "Shadow: being compared"},
		"fewer than the limit":    {api.Rollout{Rollback: api.RolloutRollback{ErrorPercent: percent(50)}}, Shadow{Compared: 3, Failed: 1, Failure: "Team a: refused"}, "Shadow: being compared; the new version fails: Team a: refused"},
		"few failures":            {api.Rollout{}, Shadow{Compared: 20, Failed: 2}, "Stepping: step 1"},
		"failures while paused":   {api.Rollout{Paused: true}, Shadow{Compared: 3, Failed: 3}, "RolledBack: "},
		"failures do not matter":  {api.Rollout{Rollback: api.RolloutRollback{ErrorPercent: percent(100)}}, Shadow{Compared: 20, Failed: 20, Failure: "broken"}, "Shadow: blocked: the new version fails for 20 of 20 parents: broken"},
		"too many, not all known": {api.Rollout{Shadow: &api.RolloutShadow{MaxDifferentPercent: percent(10)}}, Shadow{Compared: 3, Different: 3}, "Shadow: being compared"},
	} {
		m := inShadow(t, c.spec)
		s := m.tickWith(c.shadow)
		for range 90 {
			if s = m.tickWith(c.shadow); s.Phase != api.RolloutInShadow {
				break
			}
		}
		phase, text, _ := strings.Cut(c.want, ": ")
		if string(s.Phase) != phase || !strings.Contains(s.Message, text) {
			t.Errorf("%s: %s: %q, want %s", name, s.Phase, s.Message, c.want)
		}
	}
}

func TestShadowIsLeft(t *testing.T) {
	m := inShadow(t, api.Rollout{})
	m.version = "v3"
	if s := m.tick(); s.Phase != api.RolloutInShadow || s.To != "v3" || s.From != "v1" {
		t.Errorf("another change: %+v", s)
	}
	m.spec.Shadow = nil
	if s := m.tick(); s.Phase != api.RolloutStepping || s.Step != 1 {
		t.Errorf("spec.rollout.shadow is removed: %+v", s)
	}
	m = inShadow(t, api.Rollout{})
	m.version = "v1"
	if s := m.tick(); s.Phase != api.RolloutComplete || s.Shadow != nil {
		t.Errorf("back: %+v", s)
	}
	m = inShadow(t, api.Rollout{})
	m.tickWith(Shadow{Compared: 20, Failed: 20})
	m.retryAt = "now"
	if s := m.tick(); s.Phase != api.RolloutInShadow || s.Shadow.Compared != 0 {
		t.Errorf("again after a rollback: %+v", s)
	}
}

// The examples are the most severe, whatever the order of the comparisons.
func TestShadowExamples(t *testing.T) {
	var o Observed
	for i := range 50 {
		o.Add(Observed{Shadow: Shadow{Compared: 1, Deletions: map[string]int{"Pod": 1}, Examples: []Example{
			{RolloutDifference: api.RolloutDifference{Object: fmt.Sprintf("Team %02d", (i*7)%50), Text: "x"}, Severity: (i * 7) % 50 / 25},
		}}})
	}
	status := o.Shadow.status()
	if len(status.Examples) != maxExamples || status.Examples[0].Object != "Team 00" || status.Examples[4].Object != "Team 04" || status.WouldDelete != "50 Pods" || status.Compared != 50 {
		t.Errorf("%+v", status)
	}
}

// A parent with many differences leaves room for those of others, but not before more severe ones.
func TestShadowExamplesOfManyParents(t *testing.T) {
	var all []Observed
	for i := range 20 {
		one := Shadow{Compared: 1}
		for repeats := range 3 {
			one.Examples = append(one.Examples, Example{
				RolloutDifference: api.RolloutDifference{Object: fmt.Sprintf("Team %02d", i), Text: fmt.Sprint(repeats)}, Severity: 1, Repeats: repeats,
			})
		}
		all = append(all, Observed{Shadow: one})
	}
	all[7].Shadow.Examples = append(all[7].Shadow.Examples, Example{RolloutDifference: api.RolloutDifference{Object: "Team 07", Text: "deleted"}})
	for _, order := range [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {7, 0, 1, 2, 3, 4, 5, 6}} {
		var o Observed
		for _, i := range order {
			o.Add(all[i])
		}
		var got []string
		for _, each := range o.Shadow.status().Examples {
			got = append(got, each.Object+" "+each.Text)
		}
		if want := "Team 07 deleted, Team 00 0, Team 01 0, Team 02 0, Team 03 0"; strings.Join(got, ", ") != want {
			t.Errorf("in the order %v: %s, want %s", order, strings.Join(got, ", "), want)
		}
	}
}
