package explore

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSameResponses sends the same random requests to both API servers and compares responses and objects.
func TestSameResponses(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	cluster.install(t)
	eachSeed(t, cluster, compareSeed)
}

// requestsPerSeed is the length of a random sequence.
const requestsPerSeed = 250

func compareSeed(t *testing.T, cluster *clusterServer, seed uint64) {
	namespace := fmt.Sprint("compare-", seed)
	cluster.createNamespace(t, namespace)
	sides := []*side{{server: cluster, uids: map[string]string{}}, {server: newMemory(t, compared, namespace), uids: map[string]string{}}}
	owner := call{method: http.MethodPost, path: configMaps.Path(namespace, ""), contentType: "application/json",
		body: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owner"}}`}
	for _, s := range sides {
		s.owner = stringAt(s.server.send(t, owner).body, "metadata", "uid")
	}
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0)), namespace: namespace}
	var history []string
	for n := range requestsPerSeed {
		c := g.next()
		history = append(history, fmt.Sprintf("%3d %s %s?%s %s %s", n, c.method, strings.TrimPrefix(c.path, "/apis/"), c.query.Encode(), c.contentType, c.body))
		want, got := sides[0].exchange(t, c), sides[1].exchange(t, c)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("after\n%s\nkube-apiserver (-) and memory (+) differ:\n%s\nmessages:\n- %s\n+ %s",
				strings.Join(history[max(0, n-6):], "\n"), diff, sides[0].message, sides[1].message)
		}
	}
}

// side is one of the servers with what is known of its objects.
type side struct {
	server server
	owner  string
	// uids are names for UIDs.
	uids    map[string]string
	message string
}

// exchange sends a request and returns what can be compared: code, reason, and the objects in the response and in
// the store.
func (s *side) exchange(t *testing.T, c call) map[string]any {
	t.Helper()
	at := strings.TrimSuffix(c.path, "/status")
	if c.method == http.MethodPost {
		at = c.path + "/" + nameIn(c.body)
	}
	get := call{method: http.MethodGet, path: at}
	before := s.server.send(t, get)
	uid, version := stringAt(before.body, "metadata", "uid"), stringAt(before.body, "metadata", "resourceVersion")
	c.body = strings.NewReplacer("@uid", orOther(uid), "@rv", orNumber(version), "@old", "99999999", "@owner", s.owner).Replace(c.body)
	response := s.server.send(t, c)
	after := s.server.send(t, get)
	s.message = fmt.Sprint(response.code, " ", response.body["message"])
	stored := s.normalized(after.body, true)
	seen := map[string]any{
		"code":    response.code,
		"reason":  response.body["reason"],
		"changed": version != stringAt(after.body, "metadata", "resourceVersion"),
		"stored":  stored,
	}
	if response.body["kind"] != "Status" {
		seen["response"] = s.normalized(response.body, false)
	}
	return seen
}

func orOther(uid string) string {
	if uid == "" {
		return "none"
	}
	return uid
}

func orNumber(version string) string {
	if version == "" || version == "0" {
		return "5"
	}
	return version
}

func nameIn(body string) string {
	_, rest, _ := strings.Cut(body, `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

func stringAt(o map[string]any, path ...string) string {
	for i, name := range path {
		if i == len(path)-1 {
			text, _ := o[name].(string)
			return text
		}
		o, _ = o[name].(map[string]any)
	}
	return ""
}

// normalized returns an object without what differs between servers: UIDs, times, versions, and defaults of
// built-in kinds.
func (s *side) normalized(o map[string]any, stored bool) any {
	if o == nil || o["kind"] == "Status" {
		return nil
	}
	meta, _ := o["metadata"].(map[string]any)
	switch uid, _ := meta["uid"].(string); {
	case s.uids[uid] != "" || uid == "":
	case stored:
		s.uids[uid] = fmt.Sprint("uid-", len(s.uids))
	default:
		meta["uid"] = "that of a dry run"
	}
	delete(meta, "resourceVersion")
	for _, name := range []string{"creationTimestamp", "deletionTimestamp"} {
		if meta[name] != nil {
			meta[name] = "set"
		}
	}
	entries, _ := meta["managedFields"].([]any)
	managed := map[string]any{}
	for _, entry := range entries {
		e := entry.(map[string]any)
		managed[fmt.Sprint(e["manager"], e["operation"], e["subresource"])] = e["fieldsV1"]
	}
	meta["managedFields"] = managed
	switch o["kind"] {
	case "PodTemplate":
		dropDefaults(o)
	case "PartialObjectMetadata":
		delete(meta, "managedFields") // Some are of defaults.
	}
	names := []string{s.owner, "owner"}
	for uid, name := range s.uids {
		names = append(names, uid, name)
	}
	return rename(o, strings.NewReplacer(names...))
}

// rename replaces texts in names and values.
func rename(value any, replacer *strings.Replacer) any {
	switch v := value.(type) {
	case string:
		return replacer.Replace(v)
	case map[string]any:
		renamed := make(map[string]any, len(v))
		for name, below := range v {
			renamed[replacer.Replace(name)] = rename(below, replacer)
		}
		return renamed
	case []any:
		renamed := make([]any, len(v))
		for i, below := range v {
			renamed[i] = rename(below, replacer)
		}
		return renamed
	}
	return value
}

// dropDefaults keeps of a pod template what the requests set.
func dropDefaults(o map[string]any) {
	meta := o["metadata"].(map[string]any)
	delete(meta, "managedFields")
	template, _ := o["template"].(map[string]any)
	spec, _ := template["spec"].(map[string]any)
	for name := range spec {
		if name != "containers" {
			delete(spec, name)
		}
	}
	if template != nil && template["metadata"] == nil {
		template["metadata"] = map[string]any{}
	}
	if labels, _ := template["metadata"].(map[string]any); labels != nil {
		delete(labels, "creationTimestamp")
	}
	containers, _ := spec["containers"].([]any)
	for _, container := range containers {
		members := container.(map[string]any)
		for _, name := range []string{"resources", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"} {
			delete(members, name)
		}
	}
}
