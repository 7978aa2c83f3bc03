package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Each parent of this test has so many children.
const (
	killParents  = 50
	killChildren = 10
)

// TestKilled kills -9, one after the other, everything that may be killed in the
// middle of 500 creations. Each time all of them are made in the end, once, and
// each belongs to its parent.
func TestKilled(t *testing.T) { //nolint:tparallel // The victims share the cluster, one after the other.
	t.Parallel()
	c := bootCluster(t)
	hook := &pausingHook{left: -1}
	server := httptest.NewServer(hook)
	t.Cleanup(server.Close)
	c.apply(fmt.Sprintf(crdManifest, "widgets", "kill.test", "Widget", "Namespaced"))
	c.established("widgets.kill.test")
	manager := c.run()
	c.established("compositecontrollers.setpoint.dev")
	c.apply(fmt.Sprintf(killController, server.URL))

	for _, victim := range []string{"etcd", "kube-apiserver"} {
		t.Run(victim, func(t *testing.T) {
			half := hook.pauseAfter(killParents / 2)
			c.createParents(victim)
			<-half
			c.killComponent(victim)
			hook.resume()
			c.until(2*time.Minute, func() error { return c.wrong(victim) })
			manager.expectAlive(t)
		})
	}
	t.Run("setpoint", func(t *testing.T) {
		half := hook.pauseAfter(killParents / 2)
		c.createParents("setpoint")
		<-half
		manager.kill()
		hook.resume()
		if c.wrong("setpoint") == nil {
			t.Error("there was nothing left to do")
		}
		manager = c.run()
		c.until(2*time.Minute, func() error { return c.wrong("setpoint") })
		manager.expectAlive(t)
	})
}

// killController manages the widgets of all namespaces.
const killController = `apiVersion: setpoint.dev/v1alpha1
kind: CompositeController
metadata: {name: kill}
spec:
  generateSelector: true
  parentResource: {apiVersion: kill.test/v1, resource: widgets}
  childResources: [{apiVersion: v1, resource: configmaps}]
  hooks: {sync: {webhook: {url: "%s"}}}
`

// pausingHook responds with the children of every parent. A test can pause it at any
// call.
type pausingHook struct {
	mu      sync.Mutex
	left    int           // calls until it stops; negative when it does not
	paused  chan struct{} // closed when it stops
	resumed chan struct{} // closed when it goes on
}

// pauseAfter makes the hook hang after so many calls. It returns a channel that is
// closed when the hook hangs.
func (h *pausingHook) pauseAfter(calls int) (halted <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left, h.paused, h.resumed = calls, make(chan struct{}), make(chan struct{})
	return h.paused
}

// resume makes the hook respond again, also to waiting calls.
func (h *pausingHook) resume() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = -1
	close(h.resumed)
}

// await counts a call, and waits while the hook has stopped.
func (h *pausingHook) await() {
	h.mu.Lock()
	if h.left < 0 {
		h.mu.Unlock()
		return
	}
	if h.left > 0 {
		h.left--
		if h.left == 0 {
			close(h.paused)
		}
		h.mu.Unlock()
		return
	}
	goes := h.resumed
	h.mu.Unlock()
	<-goes
}

func (h *pausingHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Parent struct {
			Metadata struct{ Name string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.await()
	children := make([]any, killChildren)
	for i := range children {
		children[i] = map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap",
			"metadata": map[string]any{"name": fmt.Sprintf("%s-%d", request.Parent.Metadata.Name, i)},
		}
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"children": children}) // the caller may be dead
}

// createParents makes the parents in a namespace of their own.
func (c *testCluster) createParents(namespace string) {
	c.t.Helper()
	var manifest strings.Builder
	fmt.Fprintf(&manifest, "{apiVersion: v1, kind: Namespace, metadata: {name: %s}}\n", namespace)
	for n := range killParents {
		fmt.Fprintf(&manifest, "---\n{apiVersion: kill.test/v1, kind: Widget, metadata: {name: w%d, namespace: %s}}\n", n, namespace)
	}
	c.apply(manifest.String())
}

// wrong says what is wrong with the children in a namespace, if anything.
func (c *testCluster) wrong(namespace string) error {
	out, err := c.try("", "get", "widgets.kill.test,configmaps", "-n", namespace, "-o", "json")
	if err != nil {
		return err
	}
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Name, UID       string
				OwnerReferences []struct{ Name, UID string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return err
	}
	uids := map[string]string{}
	for _, item := range list.Items {
		if item.Kind == "Widget" {
			uids[item.Metadata.Name] = item.Metadata.UID
		}
	}
	children := 0
	for _, item := range list.Items {
		if item.Kind == "Widget" || item.Metadata.Name == "kube-root-ca.crt" {
			continue
		}
		children++
		parent, _, _ := strings.Cut(item.Metadata.Name, "-")
		owners := item.Metadata.OwnerReferences
		if len(owners) != 1 || owners[0].Name != parent || owners[0].UID != uids[parent] {
			return fmt.Errorf("%s belongs to %v", item.Metadata.Name, owners)
		}
	}
	if len(uids) != killParents || children != killParents*killChildren {
		return fmt.Errorf("there are %d parents and %d children", len(uids), children)
	}
	return nil
}
