package monitoring

import (
	"errors"
	"io"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
)

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
