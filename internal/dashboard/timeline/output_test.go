package timeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// at returns the time so many milliseconds after noon.
func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

func TestOutputDuring(t *testing.T) {
	call := inspect.Step{At: 10 * time.Millisecond, Took: 20 * time.Millisecond, Call: &inspect.Call{Name: "sync"}}
	run := inspect.Run{Began: noon, Took: 50 * time.Millisecond, Steps: []inspect.Step{call}}
	run.Object = object.Ref{Kind: object.NewKind("example.com/v1", "Team"), Namespace: "shop", Name: "red"}
	for _, c := range []struct {
		at         int
		text, want string
	}{
		{15, "resize to 3", "other"},
		{-1, "before the run", ""},
		{5, "before the call", ""},
		{30, "at its end", "other"},
		{120, "read from the pipe after its end", "other"},
		{200, "long after the call", ""},
		{-1, "resize red", ""},
		{5, "resize red", "own"},
		{900, "resize red in the background", "own"},
		{1000, "resize red in the next run", ""},
		{15, "resized red.", "own"},
		{15, "red: resized", "own"},
		{15, "resize shop/red to 3", "own"},
		{15, "[shop/red] resized", "own"},
		{15, `object=shop/red`, "own"},
		{15, "resize other/red", "other"},
		{15, "resize red-1, red.example, infrared, red/blue and redo", "other"},
		{15, `level=INFO msg=resize object="Team shop/red" size=3`, "own"},
		{15, `{"msg":"resize","object":"Team shop/red"}`, "own"},
		{15, `{"msg": "resize", "object": "Team shop/red"}`, "own"},
		{15, `msg="resize like red" object="Team shop/blue"`, ""},
		{15, `msg=resize object="Pod shop/red"`, ""},
		{15, "\x00 <b>", "other"},
	} {
		o := OutputDuring(&run, run.Steps, at(1000), []OutputLine{{at(c.at), c.text}})
		got := ""
		if o.Own != nil {
			got += "own"
		}
		if o.Other != nil {
			got += "other"
		}
		if got != c.want {
			t.Errorf("%q at %d ms is %q, want %q", c.text, c.at, got, c.want)
		}
	}
}

func TestOutputWithoutNextRun(t *testing.T) {
	run := inspect.Run{Began: noon, Took: time.Second, Object: object.Ref{Kind: object.NewKind("v1", "Node"), Name: "a.b"}}
	lines := []OutputLine{{at(5900), `object="Node a.b"`}, {at(5900), "axb"}, {at(6100), "a.b"}}
	if o := OutputDuring(&run, nil, time.Time{}, lines); o.Other != nil || o.Own == nil || len(o.Own.Texts) != 1 {
		t.Errorf("got %+v", o)
	}
}

func TestOutputIsLimited(t *testing.T) {
	run := inspect.Run{Began: noon, Took: time.Second, Object: object.Ref{Name: "a"}}
	var lines []OutputLine
	for i := range 150 {
		lines = append(lines, OutputLine{at(i), fmt.Sprint("a ", i)})
	}
	o := OutputDuring(&run, nil, time.Time{}, lines)
	if len(o.Own.Texts) != 100 || o.Own.More != 50 || !strings.HasSuffix(o.Own.Texts[99], " 99") {
		t.Errorf("%d lines and %d more", len(o.Own.Texts), o.Own.More)
	}
}

func TestNextRun(t *testing.T) {
	run, other := failedAt(2, "", nil), failedAt(3, "", nil)
	other.Controller = "dc/labels"
	runs := []inspect.Run{failedAt(5, "", nil), failedAt(4, "", nil), other, run, failedAt(1, "", nil)}
	if got := NextRun(&run, runs); !got.Equal(at(4000)) {
		t.Errorf("the next run is at %s", got)
	}
	if got := NextRun(&runs[0], runs); !got.IsZero() {
		t.Errorf("after the last run there is one at %s", got)
	}
}
