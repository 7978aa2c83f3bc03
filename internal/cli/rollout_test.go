package cli

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
)

// rolloutServer is an API server with a controller whose version 2 is complete.
type rolloutServer struct {
	mu sync.Mutex
	// objects are the responses, by path.
	objects map[string]string
	// writes are the requests that stored something.
	writes []string
	// next is what the controller is once it was read.
	next string
}

const (
	rolloutPath  = "/apis/setpoint.dev/v1alpha1/compositecontrollers/teams"
	versionsPath = "/apis/apps/v1/namespaces/system/controllerrevisions"
	codePath     = "/api/v1/namespaces/system/configmaps/code"
	rolloutName  = "compositecontroller.setpoint.dev/teams"
)

// rolloutHooks are the hooks of a version, with their code in a ConfigMap.
func rolloutHooks(path string) string {
	return `{"sync": {"webhook": {"path": "` + path + `"}, "inline": {"sourceFrom": "code"}}}`
}

// newRolloutServer returns an API server with a controller that has these hooks and status, and this code.
func newRolloutServer(hooks, spec, status, code string) *rolloutServer {
	s := &rolloutServer{objects: map[string]string{}}
	s.objects[rolloutPath] = storedController(hooks, spec, status)
	if code != "" {
		s.objects[codePath] = `{"metadata": {"uid": "c", "resourceVersion": "7"}, ` + code + `}`
	}
	for name, path := range map[string]string{"v1": "/one", "v2": "/two"} {
		s.objects[versionsPath+"/"+name] = `{"revision": ` + name[1:] + `, "metadata": {"name": "` + name + `", "namespace": "system"}, "data": {"hooks": ` + rolloutHooks(path) +
			`, "configMaps": [{"namespace": "system", "name": "code", "data": {"sync.js": "` + path + `"}}]}}`
	}
	list := `{"items": [{"metadata": {"name": "v1", "namespace": "system"}}, {"metadata": {"name": "v2", "namespace": "system"}}]}`
	s.objects[versionsPath], s.objects["/apis/apps/v1/controllerrevisions"] = list, list
	return s
}

// storedController is a controller with these hooks, more of the spec, and status.
func storedController(hooks, spec, status string) string {
	return `{"apiVersion": "setpoint.dev/v1alpha1", "kind": "CompositeController", "metadata": {"name": "teams", "uid": "u", "generation": 3},
		"spec": {"hooks": ` + hooks + spec + `}, "status": ` + status + `}`
}

func (s *rolloutServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, found := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodGet && !found && (strings.HasPrefix(r.URL.Path, codePath) || strings.HasPrefix(r.URL.Path, versionsPath) || strings.Contains(r.URL.Path, "controllers/")):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`)
	case r.Method == http.MethodGet && found:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, text)
		if r.URL.Path == rolloutPath && s.next != "" {
			s.objects[rolloutPath] = s.next
		}
	case r.Method == http.MethodPatch:
		body, _ := io.ReadAll(r.Body)
		s.writes = append(s.writes, r.Method+" "+r.URL.Path+" "+string(body))
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{}`)
	default:
		apiServer(w, r)
	}
}

// rolloutOutput runs a command about the controller of a server.
func rolloutOutput(t *testing.T, s *rolloutServer, args string) (code int, output string) {
	t.Helper()
	clitest.UseCluster(t, s)
	code, out, problems := invoke(t.Context(), append([]string{"rollout"}, strings.Fields(args)...)...)
	return code, out + problems
}

const (
	withRollout    = `, "rollout": {}`
	completeStatus = `{"observedGeneration": 3, "rollout": {"phase": "Complete", "namespace": "system", "to": "v2", "previous": "v1", "message": "all parents"},
		"conditions": [{"type": "Progressing", "status": "True", "observedGeneration": 3}, {"type": "Accepted", "status": "True", "reason": "Accepted", "observedGeneration": 3}]}`
	codeOne = `"data": {"sync.js": "/one"}`
	codeTwo = `"data": {"sync.js": "/two"}`
)

func TestHistoryWithoutRollout(t *testing.T) {
	s := newRolloutServer(rolloutHooks("/two"), "", `{}`, codeTwo)
	if exit, output := rolloutOutput(t, s, "history spcc/teams"); exit != 0 || !strings.Contains(output, "v1") {
		t.Errorf("%d: %s", exit, output)
	}
	s = newRolloutServer(rolloutHooks("/two"), "", `{}`, codeTwo)
	s.objects["/apis/apps/v1/controllerrevisions"] = `{"items": []}`
	if exit, output := rolloutOutput(t, s, "history spcc/teams"); exit != 1 || !strings.Contains(output, "has no spec.rollout") {
		t.Errorf("none stored: %d: %s", exit, output)
	}
}

func TestRolloutStatus(t *testing.T) {
	accepted := func(status, reason, generation string) string {
		return strings.Replace(completeStatus, `"status": "True", "reason": "Accepted", "observedGeneration": 3`, `"status": "`+status+`", "reason": "`+reason+`", "message": "no such kind", "observedGeneration": `+generation, 1)
	}
	behind := strings.ReplaceAll(completeStatus, `"observedGeneration": 3`, `"observedGeneration": 2`)
	rolledBack := strings.Replace(completeStatus, "Complete", "RolledBack", 1)
	const later = rolloutName + ": Complete: all parents\n" // once the spec is in use
	for what, c := range map[string]struct {
		args, hooks, spec, status, code string
		exit                            int
		want, first                     string
	}{
		"complete":                    {args: " -w", first: rolloutName + ": Complete: all parents\n"},
		"not accepted":                {status: accepted("False", "ResourceNotFound", "3"), first: rolloutName + ": the spec is not accepted: no such kind\n"},
		"not accepted, watch":         {args: " -w", status: accepted("False", "ResourceNotFound", "3"), exit: 1, want: "error: " + rolloutName + ": the spec is not accepted: no such kind"},
		"not accepted before":         {args: " -w", status: accepted("False", "ResourceNotFound", "2"), first: rolloutName + ": Complete"},
		"outdated, watch":             {args: " -w", status: accepted("True", "SourceOutdated", "3"), exit: 1, want: "cannot be used: no such kind"},
		"not read yet":                {args: " -w", status: behind, want: "\n" + later, first: rolloutName + ": Setpoint has not read the latest change of the spec yet\n"},
		"other hooks":                 {args: " -w", hooks: "/three", want: "\n" + later, first: rolloutName + ": the version in the spec is not in use yet\n"},
		"other code":                  {code: codeOne, want: later, first: rolloutName + ": the version in the spec is not in use yet\n"},
		"suspended":                   {args: " -w", spec: withRollout + `, "suspend": true`, status: behind, want: "\n" + later, first: rolloutName + ": suspended by spec.suspend: the rollout waits\n"},
		"rolled back":                 {args: " -w", status: rolledBack, exit: 1, want: "the rollout was rolled back"},
		"before its first":            {hooks: "/two", status: `{}`, want: "no rollout yet"},
		"no status, not accepted":     {args: " -w", status: `{"conditions": [{"type": "Accepted", "status": "False", "message": "no such kind", "observedGeneration": 3}]}`, exit: 1, want: "not accepted: no such kind"},
		"negative timeout":            {args: " -w --timeout -1s", exit: 2, want: "--timeout must not be negative, not -1s"},
		"timeout without --watch":     {args: " --timeout 1s", exit: 2, want: "--timeout is only for --watch"},
		"JSON has nothing but status": {args: " -o json", spec: withRollout + `, "suspend": true`, first: "{\n"},
	} {
		t.Run(what, func(t *testing.T) {
			s := newRolloutServer(rolloutHooks(cmp.Or(c.hooks, "/two")), cmp.Or(c.spec, withRollout), cmp.Or(c.status, completeStatus), cmp.Or(c.code, codeTwo))
			if strings.HasSuffix(c.want, later) {
				s.next = storedController(rolloutHooks("/two"), withRollout, completeStatus)
			}
			exit, output := rolloutOutput(t, s, "status spcc/teams"+c.args)
			if exit != c.exit || !strings.Contains(output, c.want) || !strings.HasPrefix(output, c.first) {
				t.Errorf("exit code %d, want %d\n%s\nwant %s%s", exit, c.exit, output, c.first, c.want)
			}
		})
	}
}

func TestPauseAndResume(t *testing.T) {
	paused := `, "rollout": {"paused": true}`
	rolledBack := strings.Replace(completeStatus, "Complete", "RolledBack", 1)
	for _, c := range []struct {
		command, spec, status, want string
		writes                      int
	}{
		{"pause", withRollout, completeStatus, "rollout paused", 1},
		{"pause", paused, completeStatus, "rollout is paused already", 0},
		{"resume", paused, completeStatus, "rollout resumed", 1},
		{"resume", withRollout, completeStatus, "rollout is not paused", 0},
		{"resume", withRollout, rolledBack, "rollout starts again", 1},
		{"resume", paused, rolledBack, "rollout starts again", 2},
	} {
		s := newRolloutServer(rolloutHooks("/two"), c.spec, c.status, codeTwo)
		exit, output := rolloutOutput(t, s, c.command+" spcc/teams")
		if exit != 0 || output != rolloutName+": "+c.want+"\n" || len(s.writes) != c.writes {
			t.Errorf("%s of %s: %d, %s, writes: %q, want %s", c.command, c.spec, exit, output, s.writes, c.want)
		}
	}
}

// The last step has a pause too, of 1m by default.
func TestObservedUntil(t *testing.T) {
	stepping := func(more string) string {
		return `{"observedGeneration": 3, "rollout": {"phase": "Stepping", "step": 3, "percent": 100, "from": "v1", "to": "v2", "namespace": "system"` + more + `}}`
	}
	since := `, "pausedSince": "2026-01-02T03:04:05Z"`
	for _, c := range []struct{ spec, status, want string }{
		{withRollout, stepping(since), "  observed until 2026-01-02T03:05:05Z\n"},
		{`, "rollout": {"steps": [{"percent": 100, "pause": "1h"}]}`, stepping(since), "  observed until 2026-01-02T04:04:05Z\n"},
		{`, "rollout": {"shadow": {"pause": "2m"}}`, strings.Replace(stepping(since), "Stepping", "Shadow", 1), "  observed until 2026-01-02T03:06:05Z\n"},
		{withRollout, stepping(""), ""},
		{withRollout, stepping(since + `, "blocked": "no"`), ""},
		{`, "rollout": {"paused": true}`, stepping(since), ""},
	} {
		_, output := rolloutOutput(t, newRolloutServer(rolloutHooks("/two"), c.spec, c.status, codeTwo), "status spcc/teams")
		if shown := strings.Contains(output, "observed until"); shown != (c.want != "") || !strings.Contains(output, c.want) {
			t.Errorf("%s, %s: %s, want %s", c.spec, c.status, output, c.want)
		}
	}
}

func TestWatchEnds(t *testing.T) {
	const stepping = `{"observedGeneration": 3, "rollout": {"phase": "Stepping", "step": 1, "percent": 5, "from": "v1", "to": "v2", "namespace": "system"}}`
	s := newRolloutServer(rolloutHooks("/two"), withRollout, stepping, codeTwo)
	if exit, output := rolloutOutput(t, s, "status spcc/teams -w --timeout 1ms"); exit != command.Failure || !strings.Contains(output, "error: the rollout of "+rolloutName+" is not complete after 1ms\n") {
		t.Errorf("timeout: %d: %s", exit, output)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var reads atomic.Int32
	clitest.UseCluster(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == rolloutPath && reads.Add(1) == 2 { // The first one finds the controller.
			cancel()
		}
		s.ServeHTTP(w, r)
	}))
	if exit, _, problems := invoke(ctx, "rollout", "status", "spcc/teams", "--watch"); exit != command.Aborted || !strings.Contains(problems, "error: aborted; the rollout goes on\n") {
		t.Errorf("canceled: %d: %s", exit, problems)
	}
}

// --watch goes on while the API server is down, and ends with the controller.
func TestWatchRetries(t *testing.T) {
	s := newRolloutServer(rolloutHooks("/three"), withRollout, completeStatus, codeTwo)
	s.next = strings.Replace(s.objects[rolloutPath], `"uid": "u"`, `"uid": "other"`, 1)
	var reads atomic.Int32
	clitest.UseCluster(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == rolloutPath && reads.Add(1) == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.ServeHTTP(w, r)
	}))
	exit, _, problems := invoke(t.Context(), "rollout", "status", "spcc/teams", "--watch")
	if exit != command.Failure || !strings.Contains(problems, "; trying again\n") || !strings.HasSuffix(problems, "error: "+rolloutName+" was deleted and created again\n") {
		t.Errorf("%d: %s", exit, problems)
	}
}
