package handler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestHandBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		s.create(rates, "eur", `{"metadata":{"labels":{"a":"b"}},"spec":{"n":1},"status":{"phase":"New","other":1}}`)
		both := []hook.Reason{onCreate, onUpdate}
		p := program(Handler{Name: "all", On: both}, Handler{Name: "phase", On: both, Fields: [][]string{{"status", "phase"}}})
		p.ReplacedAnnotation = "kopf.dev/last"
		w := startEnv(s, p, s, nil)
		pass(time.Second)
		w.stop()
		back := handBackOf(t, s, &p)
		const want = `{"metadata":{"labels":{"a":"b"}},"spec":{"n":1},"status":{"phase":"New"}}` + "\n"
		patch := decodeObject(back.Object)
		if got := field(patch, "metadata", "annotations", "kopf.dev/last"); got != want || back.Outdated {
			t.Errorf("annotation %q, want %q", got, want)
		}
		if record, removed := field(patch, "metadata", "annotations").(map[string]any)[p.HandledAnnotation]; record != nil || !removed {
			t.Errorf("the patch %s does not remove the record", back.Object)
		}
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		if back := handBackOf(t, s, &p); !back.Outdated || field(decodeObject(back.Object), "metadata", "annotations", "kopf.dev/last") != nil {
			t.Errorf("the patch %s of an object with a change that is not handled has a state", back.Object)
		}
		s.edit(rates, "eur", string(back.Object))
		if again := handBackOf(t, s, &p); again.Object != nil {
			t.Errorf("the patch %s of an object without a record", again.Object)
		}
	})
}

// A creation that is handled stays handled: an edit that no handler is for is no reason for a second one.
func TestHandBackAfterAnEditThatNoHandlerIsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newBubbleServer(t)
		s.create(rates, "eur", `{"spec":{"n":1}}`)
		p := program(Handler{Name: "made", On: []hook.Reason{onCreate}})
		p.ReplacedAnnotation = "kopf.dev/last"
		w := startEnv(s, p, s, nil)
		pass(time.Second)
		s.edit(rates, "eur", `{"spec":{"n":2}}`)
		pass(time.Second)
		w.stop()
		back := handBackOf(t, s, &p)
		if got := field(decodeObject(back.Object), "metadata", "annotations", "kopf.dev/last"); back.Outdated || got != `{"spec":{"n":2}}`+"\n" {
			t.Errorf("annotation %q, outdated %t", got, back.Outdated)
		}
	})
}

func handBackOf(t *testing.T, s *server, p *Program) HandBack {
	t.Helper()
	o, err := object.Encode(s.get(rates, "eur"))
	if err != nil {
		t.Fatal(err)
	}
	back, err := p.HandBack(o)
	if err != nil {
		t.Fatal(err)
	}
	return back
}
