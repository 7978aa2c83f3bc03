package apply_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

const manager = "setpoint-compositecontroller-shops"

// keeper keeps the children of one parent in a cluster as they are desired, and
// remembers, as the engine does, what needs no comparing.
type keeper struct {
	*cluster
	// write writes, and rehearse does not.
	write, rehearse *apply.Writer

	family  *plan.Family
	settled map[string][2]uint64
}

func newKeeper(t *testing.T, lastApplied string, outline bool) *keeper {
	c := newCluster(t)
	parent := parse(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"books","namespace":"town","uid":"parent-uid"}}`)
	return &keeper{cluster: c, write: c.writer(apply.Options{}), rehearse: c.writer(apply.Options{DryRun: true}), settled: map[string][2]uint64{}, family: &plan.Family{
		Parent: parent, Namespaced: true, Selector: labels.Everything(), LastApplied: lastApplied, Outline: outline, Manager: manager}}
}

// rules are the same for all kinds.
func rules(method plan.Method, strategy plan.Strategy) plan.Rules {
	var all plan.Rules
	for _, plural := range slices.Sorted(maps.Keys(kindOf)) {
		all = append(all, plan.Rule{Resource: kindOf[plural], Method: method, Strategy: strategy})
	}
	return all
}

// observed is what a cache has: all objects, without the account of their fields.
func (k *keeper) observed() []*object.Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []*object.Object
	for _, key := range slices.Sorted(maps.Keys(k.objects)) {
		text, err := json.Marshal(k.objects[key])
		if err != nil {
			k.t.Fatal(err)
		}
		all = append(all, parse(k.t, string(text)))
	}
	return all
}

func (k *keeper) plan(reply []json.RawMessage) plan.Plan {
	k.t.Helper()
	desired, err := k.family.Desired(reply)
	if err != nil {
		k.t.Fatal(err)
	}
	p, err := k.family.Changes(k.observed(), desired, func(o *object.Object, wish uint64) bool {
		return k.settled[o.UID()] == [2]uint64{o.Digest(), wish}
	})
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

// enough is how many turns a reply may take: what is deleted is created anew in
// the next, and a change of strategy takes two.
const enough = 3

// keep plans and writes until there is nothing more to do.
func (k *keeper) keep(reply []json.RawMessage) {
	k.t.Helper()
	for range enough {
		p := k.plan(reply)
		if p.Empty() || !k.carry(p) {
			return
		}
	}
	if p := k.plan(reply); !p.Empty() {
		k.t.Errorf("does not come to rest:\n%s", p)
	}
}

// carry says whether all landed.
func (k *keeper) carry(p plan.Plan) (landed bool) {
	k.t.Helper()
	landed = true
	foreseen := k.foreseen(p)
	for i, result := range k.write.Carry(k.t.Context(), p) {
		action := result.Action
		if happened := outcome(result); happened != foreseen[i] {
			k.t.Errorf("%s: a dry run foresaw\n%s\nand what happened is\n%s", action, foreseen[i], happened)
		}
		if action.Before != nil && !action.Before.ControlledBy("parent-uid") {
			k.t.Errorf("%s: is not the parent's", action)
		}
		switch {
		case result.Err != nil:
			landed = false
			k.log = append(k.log, keyOf(action.Resource, action.Ref.Name)+": "+result.Err.Error())
		case result.Stored != nil && action.Desired != 0:
			k.settled[result.Stored.UID()] = [2]uint64{result.Stored.Digest(), action.Desired}
		}
	}
	return landed
}

// foreseen is what a dry run says will become of each action.
func (k *keeper) foreseen(p plan.Plan) (outcomes []string) {
	k.t.Helper()
	log, version := k.log, k.version
	for _, result := range k.rehearse.Carry(k.t.Context(), p) {
		outcomes = append(outcomes, outcome(result))
	}
	if k.version != version {
		k.t.Errorf("a dry run stored something: %s", p)
	}
	k.log = log
	return outcomes
}

func outcome(result apply.Result) string {
	switch {
	case result.Err != nil:
		return result.Err.Error()
	case result.Stored == nil:
		return "gone"
	}
	return essentials(result.Stored.JSON())
}

// others changes an object as somebody else would: members of the patch are set,
// and removed where they are null.
func (k *keeper) others(manager, key string, patch map[string]any) {
	k.t.Helper()
	live := k.objects[key]
	if live == nil {
		k.t.Fatalf("there is no %s", key)
	}
	o := live.DeepCopy()
	overlay(o.Object, patch)
	body, err := json.Marshal(o)
	if err != nil {
		k.t.Fatal(err)
	}
	request := k.by(manager, key, body)
	if _, err := k.put(request, live); err != nil {
		k.t.Fatal(err)
	}
}

// create stores an object of somebody else.
func (k *keeper) create(plural, text string) {
	k.t.Helper()
	if _, err := k.post(k.by("others", plural+"/", []byte(text))); err != nil {
		k.t.Fatal(err)
	}
}

// by is a write that does not come from a Writer.
func (k *keeper) by(manager, key string, body []byte) *asked {
	plural, name, _ := strings.Cut(key, "/")
	request := &http.Request{Method: http.MethodPut, URL: &url.URL{RawQuery: "fieldManager=" + manager}, Header: http.Header{}}
	return &asked{Request: request, resource: kindOf[plural], name: name, body: body}
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

// TestStories tells what becomes of children as wishes follow each other. Each
// file is a turn, named after what happens: a reply that is carried out by a
// method and a strategy, an echo of what is there as the reply, an edit by others,
// or a restart, after which all is compared anew with the last reply. The last file is what was written, and what
// is there in the end.
func TestStories(t *testing.T) {
	paths, err := filepath.Glob("testdata/stories/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			last := &archive.Files[len(archive.Files)-1]
			got := tell(t, archive.Files[:len(archive.Files)-1])
			if got == string(last.Data) {
				return
			}
			if !*update {
				t.Fatalf("got\n%s\nwant\n%s", got, last.Data)
			}
			last.Data = []byte(got)
			if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func tell(t *testing.T, turns []txtar.File) string {
	k := newKeeper(t, "metacontroller.k8s.io/last-applied-configuration", false)
	var story strings.Builder
	var reply []json.RawMessage
	for _, turn := range turns {
		k.log = nil
		switch words := strings.Fields(turn.Name); words[0] {
		case "restart":
			clear(k.settled)
			k.keep(reply)
		case "others":
			for key, patch := range readYAML[map[string]map[string]any](t, turn.Data) {
				k.others(words[len(words)-1], key, patch)
			}
		case "echo":
			reply = k.echo()
			k.keep(reply)
		case "outlined":
			k.family.LastApplied, k.family.Outline = "setpoint.dev/applied-fields", true
		case "renamed":
			k.family.Manager = words[1]
		default:
			k.ruled(rulesNamed(t, words))
			reply = readYAML[[]json.RawMessage](t, turn.Data)
			k.keep(reply)
		}
		fmt.Fprintf(&story, "%s:\n", turn.Name)
		// Writes to several objects are made at once, in any order.
		slices.SortStableFunc(k.log, func(a, b string) int { return strings.Compare(subject(a), subject(b)) })
		for _, line := range k.log {
			fmt.Fprintf(&story, "  %s\n", line)
		}
	}
	return story.String() + k.show()
}

// ruled changes the rules. That is another program, with a memory of its own.
func (k *keeper) ruled(rules plan.Rules) {
	if !slices.EqualFunc(rules, k.family.Rules, func(a, b plan.Rule) bool { return a.Method == b.Method && a.Strategy == b.Strategy }) {
		clear(k.settled)
	}
	k.family.Rules = rules
}

// echo is the reply of a hook that hands back what it was shown.
func (k *keeper) echo() (reply []json.RawMessage) {
	for _, o := range k.observed() {
		reply = append(reply, o.JSON())
	}
	return reply
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
	if err := yaml.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

// show is what is there, and who owns what of it.
func (k *keeper) show() string {
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(k.objects)) {
		o := k.objects[key].DeepCopy()
		var owners []string
		for _, entry := range o.GetManagedFields() {
			owners = append(owners, fmt.Sprintf("%s by %s", entry.Operation, entry.Manager))
		}
		slices.Sort(owners) // The server sorts them by the second in which they wrote.
		for _, name := range []string{"uid", "resourceVersion", "managedFields", "namespace", "ownerReferences"} {
			unstructured.RemoveNestedField(o.Object, "metadata", name)
		}
		for _, name := range []string{"apiVersion", "kind", "status"} {
			delete(o.Object, name)
		}
		shown, err := yaml.Marshal(o.Object)
		if err != nil {
			k.t.Fatal(err)
		}
		fmt.Fprintf(&text, "--- %s: %s\n%s", key, strings.Join(owners, ", "), shown)
	}
	return text.String()
}
