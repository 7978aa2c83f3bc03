package browser

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// manyObjects is the number of objects, createWorkers how many are created in parallel.
const (
	manyObjects   = 10_000
	createWorkers = 8
)

// TestManyObjects shows ten thousand objects. Failing ones come first, and every page responds.
func TestManyObjects(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	group := ns + ".test"
	url := hook(t, func(r hookRequest) (int, any) {
		if r.Parent.Spec["bad"] == true {
			return http.StatusInternalServerError, "seat is free"
		}
		return http.StatusOK, map[string]any{"children": []any{}}
	})
	c.kind(group, "Seat", url)
	began := time.Now()
	createMany(t, c.client(), ns, group)
	t.Logf("%d objects were made within %v", manyObjects, time.Since(began).Round(time.Millisecond))

	p := newPage(t, sharedUI())
	timed := func(what string, do func()) {
		began := time.Now()
		do()
		t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
	}
	controller := "/controllers/setpoint/compositecontroller.setpoint.dev~" + group
	timed("all are looked at", func() {
		until(t, "look at all", 3*time.Minute, func() error {
			p.open(controller)
			text, err := p.text()
			if err == nil && !strings.Contains(text, "objects 10,000") {
				err = fmt.Errorf("it says: %s", cut(text))
			}
			return err
		})
	})
	timed("controller page, the failing first", func() {
		p.open(controller)
		p.see("seat-04999", "seat is free")
	})
	p.audit()
	timed("filter by name", func() {
		p.fill("Filter by name or error", "seat-07777")
		p.see("seat-07777")
		p.notSeeIn("main table", "seat-04999")
	})
	timed("sort by name, second page", func() {
		p.open(controller)
		p.click("Object")
		p.notSeeIn("main table", "seat-01234")
		p.seeIn("main table", "seat-00050")
		p.click("Next")
		p.seeIn("main table", "seat-00150")
		p.notSeeIn("main table", "seat-00050")
	})

	resources := "/resources/seats." + group
	timed("resources page", func() {
		p.open(resources)
		p.see("seat-00000")
	})
	p.audit()
	timed("filter of resources", func() {
		p.fill("Name", "seat-06543")
		p.see("seat-06543")
		p.notSeeIn("main table", "seat-00000")
	})
	p.follow(resources + "/" + ns + "/seat-06543")
	p.at(resources + "/" + ns + "/seat-06543")
	p.see("seat-06543")
}

// createMany creates the objects in any order.
func createMany(t *testing.T, api *client, namespace, group string) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	numbers := make(chan int)
	var workers sync.WaitGroup
	for range createWorkers {
		workers.Go(func() {
			for n := range numbers {
				if err := api.create(ctx, "/apis/"+group+"/v1/namespaces/"+namespace+"/seats", manyObject(group, n)); err != nil {
					cancel(err)
				}
			}
		})
	}
	for n := range manyObjects {
		select {
		case numbers <- n:
		case <-ctx.Done():
		}
	}
	close(numbers)
	workers.Wait()
	succeed(t, context.Cause(ctx))
}

func manyObject(group string, n int) map[string]any {
	return map[string]any{
		"apiVersion": group + "/v1", "kind": "Seat",
		"metadata": map[string]any{"name": fmt.Sprintf("seat-%05d", n)},
		"spec":     map[string]any{"size": n % 7, "bad": slices.Contains([]int{1234, 4999, 9876}, n)},
	}
}
