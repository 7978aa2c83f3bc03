package browser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestLists sorts and filters lists by their links, and shows a suspended controller with its objects.
func TestLists(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	group := ns + ".test"
	url := hook(t, func(r hookRequest) (int, any) {
		if r.Parent.Spec["size"] == float64(13) {
			return http.StatusInternalServerError, "13 is not a size"
		}
		var children []any
		for i := range int(r.Parent.Spec["size"].(float64)) {
			children = append(children, map[string]any{"apiVersion": group + "/v1", "kind": "Board", "metadata": map[string]any{"name": fmt.Sprintf("%s-%02d", r.Parent.Metadata.Name, i)}})
		}
		return http.StatusOK, map[string]any{"children": children}
	})
	// No controller of another test reconciles boards, so their states stay.
	c.apply(fmt.Sprintf(crdManifest, "boards", group, "Board"))
	c.established("boards." + group)
	c.kindOf(group, "Shelf", "apiVersion: "+group+"/v1, resource: boards", url)
	for name, size := range map[string]int{"ash": 1, "beech": 13, "cedar": 9} {
		c.apply(fmt.Sprintf("{apiVersion: %s/v1, kind: Shelf, metadata: {name: %s, namespace: %s}, spec: {size: %d}}", group, name, ns, size))
	}
	p := newPage(t, sharedUI())
	controller := "/controllers/setpoint/compositecontroller.setpoint.dev~" + group
	p.open(controller)
	p.see("beech", "13 is not a size", "Failing 1", "Synced 2")

	// A link sorts, and the address has the order and the filter.
	firstRow := func(path, name string) {
		t.Helper()
		p.at(path)
		p.seeIn("main tbody tr:first-child", name)
	}
	p.clickIn("main thead", "Children")
	firstRow(controller+"?sort=children", "cedar")
	p.clickIn("main thead", "Children")
	firstRow(controller+"?reverse=yes&sort=children", "beech")
	p.clickIn("main .chips", "Synced 2")
	firstRow(controller+"?reverse=yes&sort=children&state=Synced", "ash")
	p.notSeeIn("main tbody", "beech")
	p.reload()
	firstRow(controller+"?reverse=yes&sort=children&state=Synced", "ash")
	if sorted := must[string](p, `document.querySelector("main th[aria-sort]").textContent + " " + document.querySelector("main th[aria-sort]").ariaSort`); sorted != "Children descending" {
		t.Errorf("a screen reader hears %q", sorted)
	}
	p.audit()
	kind := "/resources/shelfs." + group
	p.open(kind + "?sort=state&namespace=" + ns)
	p.seeIn("main tbody tr:first-child", "beech", "Failing")
	p.audit()
	p.open(kind + "?state=Failing&sort=nonsense")
	p.see("Ignored in the address", "sort=nonsense", "beech")
	p.notSeeIn("main tbody", "ash")
	p.audit()
	p.open(kind + "/" + ns + "/ash?outcome=synced&sort=duration")
	p.see("Longest", "Synced")
	p.audit()

	// A suspended controller is in a state, and so are its objects.
	p.open(controller)
	p.click("Suspend")
	p.seeIn("main .head", "Suspended")
	p.seeIn("main table", "ash", "beech", "cedar", "Suspended")
	p.see("Suspended 3")
	p.audit()
	p.open("/?state=Suspended&q=" + group)
	p.seeIn("main table", group, "Suspended")
	p.audit()
	p.open(kind)
	p.seeIn("main table", "beech", "Suspended")
	p.open(kind + "/" + ns + "/ash")
	p.see("Suspended by spec")
	p.open(controller)
	p.click("Resume")
	p.see("Synced 2", "Failing 1")
}

// TestCrashedProcess kills a program: it stays on the pages as crashed, until it runs again.
func TestCrashedProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := valueOf(freeAddress())(t)
	log := filepath.Join(dir, "dev.log")
	dev := start(t, log, os.Getenv("SETPOINT"), "dev", "--data-dir", filepath.Join(dir, "data"), "--kubeconfig", filepath.Join(dir, "kubeconfig"),
		"--dashboard-address", address, filepath.Join("..", "..", "examples", "guitar"))
	p := newPage(t, "http://"+address)
	p.enter(printedDashboard(t, log))
	p.open("/")
	p.seeIn("main table", "guitar", "Ready")
	crashed := func() error {
		text, err := p.text()
		for _, want := range []string{"the process guitar crashed, last seen", "killed", "not running"} {
			if err == nil && !strings.Contains(text, want) {
				err = errors.New(cut(text))
			}
		}
		return err
	}
	// It starts again at once, and later each time.
	p.until("see that it crashed", func() error {
		if err := killChild(dev.cmd.Process.Pid, "guitar"); err != nil {
			return err
		}
		p.open("/")
		for range 5 {
			if crashed() == nil {
				return nil
			}
			<-time.After(pollInterval)
		}
		return crashed()
	})
	p.see("Ready")
	p.notSee("crashed")
	p.audit()
}

// killChild kills a child of a process by its name.
func killChild(parent int, name string) error {
	list, err := exec.Command("ps", "-axww", "-o", "pid=,ppid=,args=").Output()
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) > 2 && fields[1] == strconv.Itoa(parent) && filepath.Base(fields[2]) == name {
			pid, err := strconv.Atoi(fields[0])
			if err != nil {
				return err
			}
			return syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	return fmt.Errorf("process %d has no child %s yet", parent, name)
}

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
