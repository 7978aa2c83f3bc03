package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// load is many clients that try to create pods, as dry runs, one after the other.
type load struct {
	address string // of `kubectl proxy`

	mu       sync.Mutex
	created  int
	refusals []string
	// ending says that a replica ends in good order meanwhile, and cut is how many pods
	// met that moment.
	ending      bool
	interrupted int
}

// newLoad gets ready to make load, and makes none.
func newLoad(c *testCluster) *load {
	log := filepath.Join(filepath.Dir(c.dir), "proxy.log")
	start(c.t, log, os.Getenv("SETPOINT"), "kubectl", "--kubeconfig", c.kubeconfig, "proxy", "--port=0")
	l := &load{}
	serving := regexp.MustCompile(`Starting to serve on (\S+)`)
	c.until(time.Minute, func() error {
		said, err := os.ReadFile(log)
		if found := serving.FindSubmatch(said); found != nil {
			l.address = string(found[1])
			return nil
		}
		return fmt.Errorf("kubectl proxy does not serve: %w", err)
	})
	return l
}

// whileLoaded loads with so many clients while something happens. Nothing may be refused.
func (l *load) whileLoaded(t *testing.T, clients int, something func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for ctx.Err() == nil {
				l.note(l.create(ctx, "good"))
			}
		})
	}
	something()
	cancel()
	all.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	t.Logf("%d pods, of which %d met the end of a connection", l.created, l.interrupted)
	if len(l.refusals) > 0 {
		t.Errorf("of %d pods %d were refused, the first with: %s", l.created, len(l.refusals), l.refusals[0])
	}
	l.created, l.interrupted, l.refusals = 0, 0, nil
}

// maxInterrupted is how many pods may be refused because their review was being written in
// the very moment in which a connection was closed: a machine that is busy enough reads
// too late that no more is to be written to it, and API servers do not try again.
const maxInterrupted = 2

func (l *load) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.ending && l.interrupted < maxInterrupted && metEndOfConnection(err) {
		l.interrupted++
		return
	}
	if err != nil {
		l.refusals = append(l.refusals, err.Error())
		return
	}
	l.created++
}

// metEndOfConnection says whether a connection closed while a review was written to it, or
// right after.
func metEndOfConnection(err error) bool {
	return strings.Contains(err.Error(), "write: broken pipe") || strings.Contains(err.Error(), `: EOF"`)
}

// done is how many pods were created.
func (l *load) done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.created
}

// create tries to create one pod, and says why it may not be.
func (l *load) create(ctx context.Context, name string) error {
	body := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `"},"spec":{"containers":[{"name":"c","image":"nginx:1"}]}}`
	url := "http://" + l.address + "/api/v1/namespaces/default/pods?dryRun=All"
	// What was begun is ended: a request that was cut off says nothing.
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	said, err := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: %s", response.Status, said)
	}
	return err
}
