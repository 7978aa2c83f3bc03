package monitoring

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
)

// cluster is a control plane of the test, and the processes that run controllers in it.
type cluster struct {
	t               *testing.T
	dir, kubeconfig string
	plane           *exec.Cmd
	runs            []*exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{t: t, dir: t.TempDir()}
	c.kubeconfig = filepath.Join(c.dir, "kubeconfig")
	c.plane = c.start("cluster", "dev", "--cluster-only", "--data-dir", filepath.Join(c.dir, "data"), "--kubeconfig", c.kubeconfig)
	c.waitFor("the API server", "get", "--raw", "/readyz")
	return c
}

// start starts the binary with its log in a file, until the test ends.
func (c *cluster) start(name string, args ...string) *exec.Cmd {
	c.t.Helper()
	path := filepath.Join(c.dir, name+".log")
	log := must(os.Create(path))(c.t)
	cmd := exec.Command(binary(c.t), args...)
	cmd.Stdout, cmd.Stderr = log, log
	succeed(c.t, cmd.Start())
	c.t.Cleanup(func() {
		end(cmd)
		log.Close()
		if c.t.Failed() {
			text, _ := os.ReadFile(path)
			c.t.Logf("%s:\n%s", name, text[max(0, len(text)-8000):])
		}
	})
	return cmd
}

// end ends a process, gracefully if it can.
func end(cmd *exec.Cmd) {
	if cmd.ProcessState != nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // It may have ended by itself.
	timer := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	_ = cmd.Wait()
}

// run runs controllers and returns the address of the metrics.
func (c *cluster) run(name string, args ...string) string {
	c.t.Helper()
	address := freeAddress(c.t)
	c.runs = append(c.runs, c.start(name, append([]string{"run", "--namespace", "default", "--address", address, "--log-format", "json"}, args...)...))
	return address
}

func (c *cluster) stop() { end(c.plane) }

func (c *cluster) stopRuns() {
	for _, run := range c.runs {
		end(run)
	}
}

// freeAddress returns an unused address. Its port is below those that programs get which listen on any, so none gets it
// before it is used.
func freeAddress(t *testing.T) string {
	t.Helper()
	for range 100 {
		listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(8000)))
		if err == nil {
			listener.Close()
			return listener.Addr().String()
		}
	}
	t.Fatal("no port is free")
	return ""
}

func (c *cluster) try(stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), binary(c.t), append([]string{"kubectl", "--kubeconfig", c.kubeconfig}, args...)...)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, &problems)
	}
	return out.String(), nil
}

func (c *cluster) kubectl(args ...string) string {
	c.t.Helper()
	return must(c.try("", args...))(c.t)
}

// waitFor runs kubectl until it succeeds.
func (c *cluster) waitFor(what string, args ...string) {
	c.t.Helper()
	c.retry(what, "", args...)
}

// apply applies manifests, as soon as their kinds are served.
func (c *cluster) apply(text string) {
	c.t.Helper()
	c.retry("the manifests", text, "apply", "-f", "-")
}

func (c *cluster) retry(what, stdin string, args ...string) {
	c.t.Helper()
	deadline := time.Now().Add(wait)
	for {
		_, err := c.try(stdin, args...)
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("wait for %s: %v", what, err)
		}
		<-time.After(200 * time.Millisecond) // between two attempts
	}
}

// count returns the number of objects.
func (c *cluster) count(args ...string) int {
	out, err := c.try("", append([]string{"get", "-o", "name"}, args...)...)
	if err != nil {
		return 0
	}
	return strings.Count(out, "\n")
}

// restricted writes a kubeconfig with the token of a ServiceAccount.
func (c *cluster) restricted(account string) string {
	c.t.Helper()
	var config map[string]any
	succeed(c.t, json.Unmarshal([]byte(c.kubectl("config", "view", "--raw", "-o", "json")), &config))
	token := strings.TrimSpace(c.kubectl("create", "token", account, "-n", "default"))
	for _, user := range config["users"].([]any) {
		user.(map[string]any)["user"] = map[string]any{"token": token}
	}
	data := must(json.Marshal(config))(c.t)
	path := filepath.Join(c.dir, account+".yaml")
	succeed(c.t, os.WriteFile(path, data, 0o600))
	return path
}

// must takes the results of a call, and ends the test with the error: must(os.ReadFile(path))(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		succeed(t, err)
		return value
	}
}

// succeed ends the test with an error, if there is one.
func succeed(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// prometheus scrapes processes and stores their samples.
type prometheus struct {
	t      *testing.T
	store  storage.Storage
	engine *promql.Engine
	// targets are the addresses of processes by their jobs, series those of the latest scrape.
	targets map[string]string
	series  map[string]map[string]labels.Labels
	// fired has the series for which expressions of alerts were true.
	fired map[string]string
}

func newPrometheus(t *testing.T) *prometheus {
	store := teststorage.New(t)
	t.Cleanup(func() { _ = store.Close() })
	return &prometheus{t: t, store: store, engine: newEngine(t), targets: map[string]string{}, series: map[string]map[string]labels.Labels{}, fired: map[string]string{}}
}

func (p *prometheus) scrape(job, address string) { p.targets[job] = address }

func (p *prometheus) scrapeAll() {
	p.t.Helper()
	for job, address := range p.targets {
		p.scrapeOne(job, address)
	}
}

// scrapeOne stores the samples of a process, with the labels that a ServiceMonitor adds. Series that are gone
// become stale, as in Prometheus.
func (p *prometheus) scrapeOne(job, address string) {
	p.t.Helper()
	now := time.Now().UnixMilli()
	appender := p.store.Appender(p.t.Context())
	current := map[string]labels.Labels{}
	for series, sample := range p.read(address) {
		full := labels.NewBuilder(series).Set("namespace", "setpoint-system").Set("job", job).Set("pod", job+"-0").Labels()
		current[full.String()] = full
		p.append(appender, full, now, sample)
	}
	for key, series := range p.series[job] {
		if _, still := current[key]; !still {
			p.append(appender, series, now, math.Float64frombits(value.StaleNaN))
		}
	}
	p.series[job] = current
	succeed(p.t, appender.Commit())
}

func (p *prometheus) append(to storage.Appender, series labels.Labels, now int64, sample float64) {
	p.t.Helper()
	must(to.Append(0, series, now, sample))(p.t)
}

// read returns the samples of a process; none if it does not respond. It sends a token, as Prometheus does
// with authorization in a ServiceMonitor.
func (p *prometheus) read(address string) func(yield func(labels.Labels, float64) bool) {
	p.t.Helper()
	none := func(func(labels.Labels, float64) bool) {}
	request := must(http.NewRequestWithContext(p.t.Context(), http.MethodGet, "http://"+address+"/metrics", http.NoBody))(p.t)
	request.Header.Set("Authorization", "Bearer token-of-prometheus")
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(request)
	if err != nil {
		return none
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		p.t.Fatalf("scrape: %s, %v", response.Status, err)
	}
	parser := must(textparse.New(text, response.Header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{}))(p.t)
	return func(yield func(labels.Labels, float64) bool) {
		for {
			entry, err := parser.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			succeed(p.t, err)
			if entry != textparse.EntrySeries {
				continue
			}
			var series labels.Labels
			parser.Labels(&series)
			_, _, sample := parser.Series()
			if !yield(series, sample) {
				return
			}
		}
	}
}
