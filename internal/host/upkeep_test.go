package host

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// Fault M1: a change of our CRDs is put right once for each manager; one that
// changes it back is named, and not fought.
func TestCRDsAreAppliedAgainOnce(t *testing.T) {
	helm, ours := crdState{name: "crd", manager: "helm"}, crdState{name: "crd", manager: "helm", current: true}
	flux := crdState{name: "crd", manager: "flux"}
	for _, c := range []struct {
		name string
		skip bool
		seen []crdState
		want string
	}{
		{"unchanged", false, []crdState{ours}, "CRDCurrent"},
		{"changed", false, []crdState{helm, ours}, "correct CRDCurrent"},
		{"changed back", false, []crdState{helm, ours, helm}, `correct CRDCurrent CRDChangedBack "helm"`},
		{"and again", false, []crdState{helm, ours, helm, helm}, `correct CRDCurrent CRDChangedBack "helm" CRDChangedBack "helm"`},
		{"by another", false, []crdState{helm, ours, flux, ours, flux}, `correct CRDCurrent correct CRDCurrent CRDChangedBack "flux"`},
		{"given up by others", false, []crdState{helm, helm, ours}, `correct CRDChangedBack "helm" CRDCurrent`},
		{"skipped", true, []crdState{helm, helm, ours}, `CRDSkipped "helm" CRDSkipped "helm" CRDCurrent`},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := crdUpkeep{skip: c.skip}
			var got []string
			for _, now := range c.seen {
				verdict, correct := u.decide(now)
				switch {
				case correct:
					u.correct(now)
					got = append(got, "correct")
				case verdict.ok:
					got = append(got, verdict.reason)
				default:
					if !strings.Contains(verdict.message, now.name) {
						t.Errorf("does not name the CRD: %s", verdict.message)
					}
					got = append(got, verdict.reason, fmt.Sprintf("%q", inQuotes(verdict.message, "helm", "flux")))
				}
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// inQuotes is the one of some names that a message has in quotes.
func inQuotes(message string, names ...string) string {
	for _, name := range names {
		if strings.Contains(message, fmt.Sprintf("%q", name)) {
			return name
		}
	}
	return ""
}

// Fault M1: a status that the schema prunes settles: it is written once for each
// term, and again when the CRD has changed.
func TestAPrunedStatusSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &pruner{}
		f, key, m := s.fleet(t)
		for range 5 {
			f.reportOne(t.Context(), key, m)
			<-time.After(reportEvery)
		}
		if got := s.patches.Load(); got != 1 {
			t.Errorf("%d writes of a status that does not change, want 1", got)
		}
		m.refusal = &compile.Refusal{Reason: "Other", Err: io.EOF}
		f.reportOne(t.Context(), key, m)
		if got := s.patches.Load(); got != 1 {
			t.Errorf("%d writes of what cannot be stored, want 1", got)
		}
		f.unlearn()
		f.reportOne(t.Context(), key, m)
		if got := s.patches.Load(); got != 2 {
			t.Errorf("%d writes after the CRD changed, want 2", got)
		}
		if m.reported.status.Conditions[0].Reason != "Other" {
			t.Errorf("reported %+v", m.reported.status)
		}
	})
}

// pruner is an API server, without a network, of one controller object, of whose
// status it stores nothing.
type pruner struct{ patches atomic.Int32 }

const prunedController = `{"apiVersion":"metacontroller.k8s.io/v1alpha1","kind":"DecoratorController","metadata":{"name":"a","uid":"u","resourceVersion":"1","generation":1},"status":{}}`

func (s *pruner) RoundTrip(r *http.Request) (*http.Response, error) {
	body := prunedController
	switch {
	case r.Method == http.MethodPatch:
		s.patches.Add(1)
	case r.URL.Query().Get("watch") != "":
		<-r.Context().Done()
		return nil, r.Context().Err()
	default:
		body = `{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + prunedController + `]}`
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}, nil
}

// fleet is one that has that object.
func (s *pruner) fleet(t *testing.T) (*fleet, queue.Key, *member) {
	t.Helper()
	client, err := clientFor(Options{Config: &rest.Config{Host: "http://pruner", Transport: s}})
	if err != nil {
		t.Fatal(err)
	}
	h := &Host{client: client, log: slog.New(slog.DiscardHandler), store: store.New(client, store.Options{Log: slog.New(slog.DiscardHandler)})}
	t.Cleanup(h.store.Close)
	h.events = newEvents(client, Options{})
	t.Cleanup(h.events.close)
	if h.upkeep, err = newUpkeep(h); err != nil {
		t.Fatal(err)
	}
	f := fleetOf(h)
	kinds := compile.Kinds()
	kind := kinds[len(kinds)-1]
	view := h.store.Watch(store.Selection{Resource: kind.Resource}, nil)
	<-view.Ready()
	f.kinds[kind.Name] = &fleetKind{Kind: kind, view: view}
	key := queue.Key{Namespace: kind.Name, Name: "a"}
	declared, err := object.Parse([]byte(prunedController))
	if err != nil {
		t.Fatal(err)
	}
	m := &member{kind: kind.Name, state: state{object: declared}}
	f.members[key] = m
	return f, key, m
}
