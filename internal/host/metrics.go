package host

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// metrics are the figures of the host and of all its controllers. No label
// holds the name of a parent or child, so that their number stays small.
type metrics struct {
	registry     *prometheus.Registry
	runs         *prometheus.CounterVec
	runTime      *prometheus.HistogramVec
	queueWait    *prometheus.HistogramVec
	hookCalls    *prometheus.CounterVec
	hookTime     *prometheus.HistogramVec
	handlerCalls *prometheus.CounterVec
	handlerTime  *prometheus.HistogramVec
	reviews      *prometheus.CounterVec
	reviewTime   *prometheus.HistogramVec
	writes       *prometheus.CounterVec
	writeSeconds *prometheus.HistogramVec
}

// seconds are the bounds of all histograms of durations, from a millisecond to
// half a minute.
var seconds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: seconds}, labels)
	}
	m := &metrics{
		registry:     prometheus.NewRegistry(),
		runs:         counter("setpoint_syncs_total", "Syncs of parents, by how they ended.", "controller", "outcome"),
		runTime:      histogram("setpoint_sync_duration_seconds", "How long syncs took, hook calls and writes included.", "controller"),
		queueWait:    histogram("setpoint_queue_wait_seconds", "How long parents waited for their sync.", "controller"),
		hookCalls:    counter("setpoint_hook_requests_total", "Calls of hooks, by what was asked (sync, finalize, customize, handle or admit) and HTTP status code; code 0 had no answer.", "controller", "hook", "code"),
		hookTime:     histogram("setpoint_hook_request_duration_seconds", "How long calls of hooks took.", "controller", "hook"),
		handlerCalls: counter("setpoint_handler_calls_total", "Calls of handlers, by what they were told of and how it went: ok, retry (in a while, as asked), terminal (not before the input changes), timeout or error.", "controller", "handler", "reason", "outcome"),
		handlerTime:  histogram("setpoint_handler_duration_seconds", "How long calls of handlers took.", "controller", "handler"),
		reviews:      counter("setpoint_admission_reviews_total", "Reviews of changes before they are stored, by what came of them: allowed, mutated, denied, or error, for which the failure policy stands.", "controller", "review", "operation", "result"),
		reviewTime:   histogram("setpoint_admission_duration_seconds", "How long reviews took.", "controller", "review"),
		writes:       counter("setpoint_api_requests_total", "Requests to the API server about parents and children, by their outcome: ok, or the reason of the refusal.", "resource", "verb", "outcome"),
		writeSeconds: histogram("setpoint_api_request_duration_seconds", "How long those requests took.", "verb"),
	}
	m.registry.MustRegister(m.runs, m.runTime, m.queueWait, m.hookCalls, m.hookTime, m.handlerCalls, m.handlerTime, m.reviews, m.reviewTime, m.writes, m.writeSeconds,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// ran counts a sync. What was done beside the queue is none.
func (m *metrics) ran(run *trace.Run) {
	if run.By != "" {
		return
	}
	m.runs.WithLabelValues(run.Program, string(run.Outcome)).Inc()
	m.runTime.WithLabelValues(run.Program).Observe(run.Took.Seconds())
	m.queueWait.WithLabelValues(run.Program).Observe(run.Waited.Seconds())
}

// handled counts a call of a handler.
func (m *metrics) handled(program, handler string, reason hook.Reason, took time.Duration, err error) {
	m.handlerCalls.WithLabelValues(program, handler, string(reason), inspect.Ended(err)).Inc()
	m.handlerTime.WithLabelValues(program, handler).Observe(took.Seconds())
}

// admitted counts a review.
func (m *metrics) admitted(o admission.Occasion) {
	m.reviews.WithLabelValues(o.Program, o.Webhook, string(o.Operation), string(o.Result)).Inc()
	m.reviewTime.WithLabelValues(o.Program, o.Webhook).Observe(o.Took.Seconds())
}

func (m *metrics) called(program string, e webhook.Exchange) {
	m.hookCalls.WithLabelValues(program, string(e.Question), strconv.Itoa(e.Code)).Inc()
	m.hookTime.WithLabelValues(program, string(e.Question)).Observe(e.Duration.Seconds())
}

func (m *metrics) wrote(resource object.Resource, verb, outcome string, took time.Duration) {
	m.writes.WithLabelValues(resource.String(), verb, outcome).Inc()
	m.writeSeconds.WithLabelValues(verb).Observe(took.Seconds())
}

// forget drops the figures of a controller that is gone.
func (m *metrics) forget(program string) {
	labels := prometheus.Labels{"controller": program}
	m.runs.DeletePartialMatch(labels)
	m.runTime.DeletePartialMatch(labels)
	m.queueWait.DeletePartialMatch(labels)
	m.hookCalls.DeletePartialMatch(labels)
	m.hookTime.DeletePartialMatch(labels)
	m.handlerCalls.DeletePartialMatch(labels)
	m.handlerTime.DeletePartialMatch(labels)
	m.reviews.DeletePartialMatch(labels)
	m.reviewTime.DeletePartialMatch(labels)
}

// watch adds the figures that are read at the moment of a scrape.
func (m *metrics) watch(cached *store.Store, running *fleet) {
	m.registry.MustRegister(&scraped{cached: cached, running: running})
}

// scraped reads gauges from the cache and the controllers.
type scraped struct {
	cached  *store.Store
	running *fleet
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	cachedObjects = describe("setpoint_cached_objects", "Objects in the cache.", "resource", "selector")
	cachedBytes   = describe("setpoint_cached_bytes", "Bytes of JSON in the cache.", "resource", "selector")
	cacheLists    = describe("setpoint_cache_lists_total", "Times that all objects of a watch were listed.", "resource", "selector")
	queueDepth    = describe("setpoint_queue_depth", "Parents waiting for their sync, by priority.", "controller", "priority")
	queueBackoff  = describe("setpoint_queue_backoff", "Parents waiting to be tried again.", "controller")
	parents       = describe("setpoint_parents", "Parents in the care of a controller.", "controller")
	children      = describe("setpoint_children", "Children of those parents.", "controller")
	readiness     = describe("setpoint_controller_ready", "1 if a controller does its work or stands by to, 0 if something is in its way.", "controller")
	overdueCalls  = describe("setpoint_calls_overdue", "Calls of hooks, handlers and reviews that have not returned although their timeout is over.", "controller")
	deletions     = describe("setpoint_deletions_held", "Deletions that the deletion guard holds until a person confirms them.", "controller")
	inError       = describe("setpoint_parents_in_error", "Parents whose latest sync failed.", "controller")
	conflicting   = describe("setpoint_objects_conflicting", "Objects that are slowed down because they, or their children, change again and again.", "controller")
)

// Describe implements prometheus.Collector.
func (s *scraped) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cachedObjects, cachedBytes, cacheLists, queueDepth, queueBackoff, parents, children, deletions, inError, conflicting, overdueCalls, readiness} {
		to <- d
	}
}

// cached is a series of the cache's figures.
type cached struct{ resource, selector string }

type cacheSum struct{ objects, bytes, lists int }

// cache sums up the watches that are one series: the same objects may be watched
// whole and by their metadata.
func (s *scraped) cache() map[cached]cacheSum {
	sums := map[cached]cacheSum{}
	for _, w := range s.cached.Stats() {
		which := cached{w.Selection.Resource.String(), w.Selection.Labels}
		sum := sums[which]
		sums[which] = cacheSum{sum.objects + w.Objects, sum.bytes + w.Bytes, sum.lists + w.Lists}
	}
	return sums
}

// Collect implements prometheus.Collector.
func (s *scraped) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for which, sum := range s.cache() {
		gauge(cachedObjects, float64(sum.objects), which.resource, which.selector)
		gauge(cachedBytes, float64(sum.bytes), which.resource, which.selector)
		to <- prometheus.MustNewConstMetric(cacheLists, prometheus.CounterValue, float64(sum.lists), which.resource, which.selector)
	}
	healths := s.running.health()
	for name, ready := range s.running.readiness(healths) {
		gauge(readiness, ready, name)
	}
	for name, health := range healths {
		for priority, depth := range health.Queue.Depth {
			gauge(queueDepth, float64(depth), name, queue.Priority(priority).String())
		}
		gauge(queueBackoff, float64(health.Queue.Backoff), name)
		gauge(parents, float64(health.Parents), name)
		gauge(children, float64(health.Children), name)
		gauge(deletions, float64(health.Held.Deletions), name)
		gauge(inError, float64(health.InError), name)
		gauge(overdueCalls, float64(health.Overdue), name)
		gauge(conflicting, float64(health.Unsettled), name)
	}
}
