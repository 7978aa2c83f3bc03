package soak

import (
	"bufio"
	"context"
	"fmt"
	"github.com/setpoint-dev/setpoint/internal/must"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// replica is one of several Setpoints, of which one leads. It is started again
// when it has ended, whatever it ended of.
type replica struct {
	t                  *testing.T
	name, log          string
	binary, kubeconfig string
	address            string
	// reviews is the port of its webhook server, service the port of the Service that
	// leads there.
	reviews, service string
	tally            *counters
	mu               sync.Mutex
	running          *process
	expected, closed bool
}

func newReplica(t *testing.T, binary, kubeconfig string, n int, count *counters) *replica {
	t.Helper()
	r := &replica{
		t: t, name: fmt.Sprintf("setpoint-%d", n), binary: binary, kubeconfig: kubeconfig,
		address: freeAddress(t), reviews: freeAddress(t), tally: count,
	}
	r.log = filepath.Join(filepath.Dir(kubeconfig), r.name+".log")
	t.Cleanup(r.close)
	return r
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0")).In(t)
	defer listener.Close()
	return listener.Addr().String()
}

func (r *replica) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.expected = false
	running, err := start(r.log, r.binary, "run", "--kubeconfig", r.kubeconfig, "--leader-elect",
		"--namespace", "default", "--address", r.address,
		"--admission-address", r.reviews, "--admission-service", "setpoint", "--admission-service-port", r.service)
	if err != nil {
		r.t.Error(err)
		return
	}
	r.running = running
	go r.follow(running)
}

// follow starts another when one has ended.
func (r *replica) follow(running *process) {
	<-running.ended
	r.mu.Lock()
	expected, over := r.expected, r.closed
	r.mu.Unlock()
	if over {
		return
	}
	if !expected {
		r.tally.add("Setpoint ended by itself")
	}
	_ = pause(context.Background(), time.Second)
	r.start()
}

// terminate has it ended in some way, which is expected.
func (r *replica) terminate(how func(*process)) {
	r.mu.Lock()
	running := r.running
	r.expected = true
	r.mu.Unlock()
	how(running)
}

// freeze lets it sleep for a while, so that it wakes up in a world that has
// gone on without it.
func (r *replica) freeze(ctx context.Context, d time.Duration) {
	r.mu.Lock()
	running := r.running
	r.mu.Unlock()
	running.signal(syscall.SIGSTOP)
	_ = pause(ctx, d)
	running.signal(syscall.SIGCONT)
}

// isLeader asks it whether it is the one that works.
func (r *replica) isLeader(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.address+"/metrics", http.NoBody)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return err == nil && strings.Contains(string(text), "\nsetpoint_leader 1\n")
}

func (r *replica) close() {
	r.mu.Lock()
	r.closed = true
	running := r.running
	r.mu.Unlock()
	if running == nil {
		return
	}
	running.signal(syscall.SIGCONT)
	running.stop()
	if r.t.Failed() {
		r.t.Logf("%s:\n%s", r.name, tail(r.log))
	}
}

// panics are the lines of the log that tell of one.
func (r *replica) panics() []string {
	file, err := os.Open(r.log)
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close()
	var found []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "panic") {
			found = append(found, lines.Text())
		}
	}
	return found
}
