package apply_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

const manager = "setpoint-compositecontroller-shops"

// testController keeps the children of one parent as desired in a cluster, and remembers up-to-date
// children.
type testController struct {
	*cluster
	// writer stores, dryRunWriter does not.
	writer, dryRunWriter *apply.Writer

	planner  *plan.Planner
	upToDate map[string][2]uint64
	// heldField is the last that another manager held.
	heldField *apply.HeldFieldError
	// onlyApply drops updates that would replace applies.
	onlyApply bool
}

func newTestController(t *testing.T, lastApplied string, outline bool) *testController {
	c := newCluster(t)
	parent := parse(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"books","namespace":"town","uid":"parent-uid"}}`)
	return &testController{cluster: c, writer: c.writer(apply.Options{}), dryRunWriter: c.writer(apply.Options{DryRun: true}), upToDate: map[string][2]uint64{}, planner: &plan.Planner{
		Parent: parent, Namespaced: true, Selector: labels.Everything(), LastApplied: lastApplied, OmitValues: outline, Manager: manager}}
}

// rules returns the same rule for all kinds.
func rules(method plan.UpdateMethod, strategy plan.ApplyStrategy) plan.Rules {
	var all plan.Rules
	for _, plural := range slices.Sorted(maps.Keys(kindOf)) {
		all = append(all, plan.Rule{Resource: kindOf[plural], Method: method, Strategy: strategy})
	}
	return all
}

// observed returns all objects without managed fields, as a cache does.
func (k *testController) observed() []*object.Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*object.Object
	for _, key := range slices.Sorted(maps.Keys(k.objects)) {
		text := must.Get(json.Marshal(k.objects[key])).In(k.t)
		all = append(all, parse(k.t, string(text)))
	}
	return all
}

func (k *testController) plan(response []json.RawMessage) plan.Plan {
	k.t.Helper()
	desired, _, err := k.planner.Desired(response)
	must.Succeed(k.t, err)
	p := must.Get(k.planner.Changes(k.observed(), desired, func(o *object.Object, digest uint64) bool {
		return k.upToDate[o.UID()] == [2]uint64{o.Digest(), digest}
	})).In(k.t)
	return p
}

// maxPasses is how many plans a response may take: recreated children need two, a change of the
// strategy needs two.
const maxPasses = 3

// reconcile plans and writes until there is nothing left to do.
func (k *testController) reconcile(response []json.RawMessage) {
	k.t.Helper()
	for range maxPasses {
		p := k.plan(response)
		if p.Empty() || !k.apply(p) {
			return
		}
	}
	if p := k.plan(response); !p.Empty() {
		k.t.Errorf("does not converge:\n%s", p)
	}
}

// apply reports whether all writes succeeded.
func (k *testController) apply(p plan.Plan) (landed bool) {
	k.t.Helper()
	landed = true
	for _, stage := range p.Stages {
		for i := range stage {
			if k.onlyApply {
				stage[i].Update = nil
			}
		}
	}
	simulated := k.dryRun(p)
	for i, result := range k.writer.ApplyPlan(k.t.Context(), p) {
		action := result.Action
		if happened := outcome(result); happened != simulated[i] {
			k.t.Errorf("%s: a dry run foresaw\n%s\nand what happened is\n%s", action, simulated[i], happened)
		}
		if action.Before != nil && !action.Before.ControlledBy("parent-uid") {
			k.t.Errorf("%s: is not the parent's", action)
		}
		switch {
		case result.Err != nil:
			landed = false
			k.heldField, _ = errors.AsType[*apply.HeldFieldError](result.Err)
			k.log = append(k.log, keyOf(action.Resource, action.Ref.Name)+": "+outcome(result))
		case result.Stored != nil && action.Desired != 0:
			k.upToDate[result.Stored.UID()] = [2]uint64{result.Stored.Digest(), action.Desired}
		}
	}
	return landed
}

// dryRun returns the expected outcome of each action by a dry run.
func (k *testController) dryRun(p plan.Plan) (outcomes []string) {
	k.t.Helper()
	log, version := k.log, k.version
	outcomes = append(outcomes, lists.Map(k.dryRunWriter.ApplyPlan(k.t.Context(), p), outcome)...)
	if k.version != version {
		k.t.Errorf("a dry run stored something: %s", p)
	}
	k.log = log
	return outcomes
}

var entryIndex = regexp.MustCompile(`managedFields/\d+`)

func outcome(result apply.Result) string {
	switch {
	case result.Err != nil: // The server sorts managed fields by time.
		return entryIndex.ReplaceAllString(result.Err.Error(), "managedFields/N")
	case result.Stored == nil:
		return "gone"
	}
	return normalize(result.Stored.JSON())
}

// editAs edits an object as another manager: it sets members, and removes those that are null.
func (k *testController) editAs(manager, key string, patch map[string]any) {
	k.t.Helper()
	live := k.objects[key]
	if live == nil {
		k.t.Fatalf("there is no %s", key)
	}
	o := live.DeepCopy()
	overlay(o.Object, patch)
	body := must.Get(json.Marshal(o)).In(k.t)
	request := k.request(manager, key, body)
	must.Get(k.put(request, live)).In(k.t)
}

// create creates an object of another client.
func (k *testController) create(plural, text string) {
	k.t.Helper()
	must.Get(k.post(k.request("others", plural+"/", []byte(text)))).In(k.t)
}

// runReleaseCommand sends the patch of the command that the last error named.
func (k *testController) runReleaseCommand() {
	k.t.Helper()
	if k.heldField == nil {
		k.t.Fatal("no error named a command")
	}
	_, quoted, _ := strings.Cut(k.heldField.Command, "-p '")
	for key, live := range k.objects {
		must.Get(k.edited(k.request("kubectl-patch", key, []byte(strings.TrimSuffix(quoted, "'"))), live)).In(k.t)
	}
}

// request sends a write without a Writer.
func (k *testController) request(manager, key string, body []byte) *apiRequest {
	plural, name, _ := strings.Cut(key, "/")
	request := &http.Request{Method: http.MethodPut, URL: &url.URL{RawQuery: "fieldManager=" + manager}, Header: http.Header{}}
	return &apiRequest{Request: request, resource: kindOf[plural], name: name, body: body}
}

func overlay(onto, patch map[string]any) {
	for name, value := range patch {
		below, isObject := value.(map[string]any)
		here, wasObject := onto[name].(map[string]any)
		switch {
		case value == nil:
			delete(onto, name)
		case isObject && wasObject:
			overlay(here, below)
		default:
			onto[name] = value
		}
	}
}

var update = flag.Bool("update", false, "write what the stories yield into their last file")

// Each file of a script is a step, named by its action: a response that is applied with a method
// and a strategy, an echo of the stored children as the response, an edit by others, or a restart.
// The last file has the writes and the objects at the end.
func TestScripts(t *testing.T) {
	paths, err := filepath.Glob("testdata/scripts/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := must.Get(txtar.ParseFile(path)).In(t)
			last := &archive.Files[len(archive.Files)-1]
			got := runScript(t, archive.Files[:len(archive.Files)-1])
			if got == string(last.Data) {
				return
			}
			if !*update {
				t.Fatalf("got\n%s\nwant\n%s", got, last.Data)
			}
			last.Data = []byte(got)
			must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
		})
	}
}

func runScript(t *testing.T, turns []txtar.File) string {
	k := newTestController(t, "metacontroller.k8s.io/last-applied-configuration", false)
	var story strings.Builder
	var response []json.RawMessage
	for _, turn := range turns {
		k.log = nil
		switch words := strings.Fields(turn.Name); words[0] {
		case "restart":
			clear(k.upToDate)
			k.reconcile(response)
		case "others":
			for key, patch := range readYAML[map[string]map[string]any](t, turn.Data) {
				k.editAs(words[len(words)-1], key, patch)
			}
		case "applied-by":
			for key, fields := range readYAML[map[string]map[string]any](t, turn.Data) {
				k.applyAs(words[1], key, fields)
			}
		case "released":
			k.runReleaseCommand()
		case "echo":
			response = k.echo()
			k.reconcile(response)
		case "outlined":
			k.planner.LastApplied, k.planner.OmitValues = "setpoint.dev/applied-fields", true
		case "renamed":
			k.planner.Manager = words[1]
		default:
			k.setRules(rulesNamed(t, words))
			response = readYAML[[]json.RawMessage](t, turn.Data)
			k.reconcile(response)
		}
		fmt.Fprintf(&story, "%s:\n", turn.Name)
		// Concurrent writes have no order.
		slices.SortStableFunc(k.log, func(a, b string) int { return strings.Compare(subject(a), subject(b)) })
		for _, line := range k.log {
			fmt.Fprintf(&story, "  %s\n", line)
		}
	}
	return story.String() + k.show()
}

// setRules changes the rules, as a new program does.
func (k *testController) setRules(rules plan.Rules) {
	if !slices.EqualFunc(rules, k.planner.Rules, func(a, b plan.Rule) bool { return a.Method == b.Method && a.Strategy == b.Strategy }) {
		clear(k.upToDate)
	}
	k.planner.Rules = rules
}

// echo returns the response of a hook that returns the children it gets.
func (k *testController) echo() (response []json.RawMessage) {
	for _, o := range k.observed() {
		response = append(response, o.JSON())
	}
	return response
}

func subject(line string) string {
	of, _, _ := strings.Cut(line, ":")
	return of
}

func rulesNamed(t *testing.T, words []string) plan.Rules {
	method, strategy := plan.InPlace, plan.Merge
	for _, word := range words {
		switch word {
		case "merge":
		case "server-side":
			strategy = plan.ServerSide
		case "recreate":
			method = plan.Recreate
		default:
			t.Fatalf("no such turn: %s", word)
		}
	}
	return rules(method, strategy)
}

func readYAML[T any](t *testing.T, text []byte) (value T) {
	t.Helper()
	must.Succeed(t, yaml.Unmarshal(text, &value))
	return value
}

// show returns the objects and the owners of their fields.
func (k *testController) show() string {
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(k.objects)) {
		o := k.objects[key].DeepCopy()
		var owners []string
		for _, entry := range o.GetManagedFields() {
			owners = append(owners, fmt.Sprintf("%s by %s", entry.Operation, entry.Manager))
		}
		slices.Sort(owners) // The server sorts entries by time in seconds.
		for _, name := range []string{"uid", "resourceVersion", "managedFields", "namespace", "ownerReferences"} {
			unstructured.RemoveNestedField(o.Object, "metadata", name)
		}
		for _, name := range []string{"apiVersion", "kind", "status"} {
			delete(o.Object, name)
		}
		shown := must.Get(yaml.Marshal(o.Object)).In(k.t)
		fmt.Fprintf(&text, "--- %s: %s\n%s", key, strings.Join(owners, ", "), shown)
	}
	return text.String()
}
