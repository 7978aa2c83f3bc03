package explore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore/apiserver"
)

// TestSameGarbage deletes some of a random graph of owners in both API servers, and compares what is left when the
// garbage collector has nothing more to do.
func TestSameGarbage(t *testing.T) {
	t.Parallel()
	cluster := newCluster(t)
	eachSeed(t, cluster, compareGarbage)
}

// graphSize is the number of objects in a graph: all ways of the garbage collector through it are tried.
const graphSize = 5

func compareGarbage(t *testing.T, cluster *clusterServer, seed uint64) {
	namespace := fmt.Sprint("garbage-", seed)
	cluster.createNamespace(t, namespace)
	memory := newMemory(t, compared, namespace)
	random := rand.New(rand.NewPCG(seed, 2))
	both := func(c call) {
		for _, s := range []server{cluster, memory} {
			sent := c
			sent.body = withUIDs(t, s, namespace, c.body)
			wantStored(t, s.send(t, sent))
		}
	}
	for n := range graphSize {
		both(call{method: http.MethodPost, path: configMaps.Path(namespace, ""), contentType: "application/json", body: randomOwned(random, n)})
	}
	var deletions []call
	for _, n := range random.Perm(graphSize)[:2] {
		policy := []string{"Background", "Foreground", "Orphan"}[random.IntN(3)]
		deletion := call{method: http.MethodDelete, path: configMaps.Path(namespace, fmt.Sprint("c", n)), contentType: "application/json",
			body: fmt.Sprintf(`{"propagationPolicy":%q}`, policy)}
		deletions = append(deletions, deletion)
		cluster.send(t, deletion) // The garbage collector may have been faster.
	}
	ends := endsOf(t, memory.Server, memory.state, namespace, deletions)
	left := ""
	defer func() {
		if t.Failed() {
			t.Log("the control plane has left\n" + left)
		}
	}()
	cluster.await(t, "the same garbage collection, which leads to one of\n"+strings.Join(slices.Sorted(maps.Keys(ends)), "\n\n"), func() bool {
		list := cluster.send(t, call{method: http.MethodGet, path: configMaps.Path(namespace, "")})
		left = graphOf(t, list)
		return ends[left]
	})
}

// randomOwned returns a ConfigMap with owners among the earlier ones.
func randomOwned(random *rand.Rand, n int) string {
	var owners []string
	for owner := range n {
		if random.IntN(2) == 0 {
			continue
		}
		owners = append(owners, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","name":"c%[1]d","uid":"@c%[1]d","blockOwnerDeletion":%[2]t}`, owner, random.IntN(2) == 0))
	}
	finalizers := ""
	if random.IntN(4) == 0 {
		finalizers = `,"finalizers":["example.com/a"]`
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d","ownerReferences":[%s]%s}}`, n, strings.Join(owners, ","), finalizers)
}

// withUIDs replaces @c0 and the like by the UID of the object in a server.
func withUIDs(t *testing.T, s server, namespace, body string) string {
	t.Helper()
	for n := range graphSize {
		if name := fmt.Sprint("c", n); strings.Contains(body, "@"+name) {
			live := s.send(t, call{method: http.MethodGet, path: configMaps.Path(namespace, name)})
			uid := stringAt(live.body, "metadata", "uid")
			if uid == "" {
				uid = "gone"
			}
			body = strings.ReplaceAll(body, "@"+name, uid)
		}
	}
	return body
}

// endsOf returns what is left at the ends of all ways of deletions and the garbage collector.
func endsOf(t *testing.T, server *apiserver.Server, from *apiserver.State, namespace string, deletions []call) map[string]bool {
	t.Helper()
	ends, seen := map[string]bool{}, map[string]bool{}
	var visit func(state *apiserver.State, deleted int)
	visit = func(state *apiserver.State, deleted int) {
		graph := memoryGraph(state, namespace)
		key := fmt.Sprint(deleted, graph)
		if seen[key] {
			return
		}
		seen[key] = true
		// A deletion may come before the garbage collector has done all after the one before.
		if deleted < len(deletions) {
			after, response := server.Do(state, deletions[deleted].request(t, "http://memory"))
			newOutcome(t, response)
			visit(after, deleted+1)
		}
		changes := server.Collect(state)
		for _, change := range changes {
			visit(change.State, deleted)
		}
		if len(changes) == 0 && deleted == len(deletions) {
			ends[graph] = true
		}
	}
	visit(from, 0)
	return ends
}

func memoryGraph(state *apiserver.State, namespace string) string {
	var items []any
	for o := range state.Objects() {
		if o.Kind() == configMaps.Kind && o.Namespace() == namespace {
			items = append(items, decoded(o.JSON()))
		}
	}
	return describe(items)
}

func graphOf(t *testing.T, list outcome) string {
	t.Helper()
	items, _ := list.body["items"].([]any)
	return describe(slices.DeleteFunc(items, func(each any) bool {
		o, _ := each.(map[string]any)
		return stringAt(o, "metadata", "name") == "kube-root-ca.crt"
	}))
}

// describe returns names, owners, finalizers and deletions.
func describe(items []any) string {
	var lines []string
	for _, each := range items {
		o, _ := each.(map[string]any)
		meta := members(o, "metadata")
		var owners []string
		refs, _ := meta["ownerReferences"].([]any)
		for _, ref := range refs {
			fields, _ := ref.(map[string]any)
			owners = append(owners, fmt.Sprint(fields["name"]))
		}
		lines = append(lines, fmt.Sprint(meta["name"], " owned by ", owners, ", finalizers ", meta["finalizers"], ", deleting ", isDeleting(o)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
