package manager

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call/webhook"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
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
	writeTime    *prometheus.HistogramVec
}

// durationBuckets are the bounds of all histograms of durations, from a millisecond to
// half a minute.
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets}, labels)
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
		writeTime:    histogram("setpoint_api_request_duration_seconds", "How long those requests took.", "verb"),
	}
	m.registry.MustRegister(m.runs, m.runTime, m.queueWait, m.hookCalls, m.hookTime, m.handlerCalls, m.handlerTime, m.reviews, m.reviewTime, m.writes, m.writeTime,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observeRun counts a sync. What was done beside the queue is none.
func (m *metrics) observeRun(run *record.Run) {
	if run.Trigger != "" {
		return
	}
	m.runs.WithLabelValues(run.Controller, string(run.Outcome)).Inc()
	m.runTime.WithLabelValues(run.Controller).Observe(run.Duration.Seconds())
	m.queueWait.WithLabelValues(run.Controller).Observe(run.QueueDuration.Seconds())
}

// observeHandler counts a call of a handler.
func (m *metrics) observeHandler(program, handler string, reason hook.Reason, took time.Duration, err error) {
	m.handlerCalls.WithLabelValues(program, handler, string(reason), model.CallOutcome(err)).Inc()
	m.handlerTime.WithLabelValues(program, handler).Observe(took.Seconds())
}

// observeReview counts a review.
func (m *metrics) observeReview(o admission.ReviewRecord) {
	m.reviews.WithLabelValues(o.Program, o.Webhook, string(o.Operation), string(o.Result)).Inc()
	m.reviewTime.WithLabelValues(o.Program, o.Webhook).Observe(o.Duration.Seconds())
}

func (m *metrics) observeHookCall(program string, e webhook.CallResult) {
	m.hookCalls.WithLabelValues(program, string(e.HookType), strconv.Itoa(e.Code)).Inc()
	m.hookTime.WithLabelValues(program, string(e.HookType)).Observe(e.Duration.Seconds())
}

func (m *metrics) observeRequest(resource object.Resource, verb, outcome string, took time.Duration) {
	m.writes.WithLabelValues(resource.String(), verb, outcome).Inc()
	m.writeTime.WithLabelValues(verb).Observe(took.Seconds())
}

// deleteController drops the figures of a controller that is gone.
func (m *metrics) deleteController(program string) {
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

// registerCollector adds the figures that are read at the moment of a scrape.
func (m *metrics) registerCollector(cached *cache.Cache, running *controllerSet) {
	m.registry.MustRegister(&collector{cached: cached, controllers: running})
}

// collector reads gauges from the cache and the controllers.
type collector struct {
	cached      *cache.Cache
	controllers *controllerSet
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	cachedObjectsDesc = newDesc("setpoint_cached_objects", "Objects in the cache.", "resource", "selector")
	cachedBytesDesc   = newDesc("setpoint_cached_bytes", "Bytes of JSON in the cache.", "resource", "selector")
	cacheListsDesc    = newDesc("setpoint_cache_lists_total", "Times that all objects of a watch were listed.", "resource", "selector")
	queueDepthDesc    = newDesc("setpoint_queue_depth", "Parents waiting for their sync, by priority.", "controller", "priority")
	queueBackoffDesc  = newDesc("setpoint_queue_backoff", "Parents waiting to be tried again.", "controller")
	parentsDesc       = newDesc("setpoint_parents", "Parents in the care of a controller.", "controller")
	childrenDesc      = newDesc("setpoint_children", "Children of those parents.", "controller")
	readyDesc         = newDesc("setpoint_controller_ready", "1 if a controller does its work or stands by to, 0 if something is in its way.", "controller")
	overdueCallsDesc  = newDesc("setpoint_calls_overdue", "Calls of hooks, handlers and reviews that have not returned although their timeout is over.", "controller")
	heldDeletionsDesc = newDesc("setpoint_deletions_held", "Deletions that the deletion guard holds until a person confirms them.", "controller")
	inErrorDesc       = newDesc("setpoint_parents_in_error", "Parents whose latest sync failed.", "controller")
	conflictingDesc   = newDesc("setpoint_objects_conflicting", "Objects that are slowed down because they, or their children, change again and again.", "controller")
)

// Describe implements prometheus.Collector.
func (s *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cachedObjectsDesc, cachedBytesDesc, cacheListsDesc, queueDepthDesc, queueBackoffDesc, parentsDesc, childrenDesc, heldDeletionsDesc, inErrorDesc, conflictingDesc, overdueCallsDesc, readyDesc} {
		to <- d
	}
}

// cacheSeries is a series of the cache's figures.
type cacheSeries struct{ resource, selector string }

type cacheSum struct{ objects, bytes, lists int }

// cache sums up the watches that are one series: the same objects may be watched
// whole and by their metadata.
func (s *collector) cache() map[cacheSeries]cacheSum {
	sums := map[cacheSeries]cacheSum{}
	for _, w := range s.cached.Stats() {
		which := cacheSeries{w.Selection.Resource.String(), w.Selection.Labels}
		sum := sums[which]
		sums[which] = cacheSum{sum.objects + w.Objects, sum.bytes + w.Bytes, sum.lists + w.Lists}
	}
	return sums
}

// Collect implements prometheus.Collector.
func (s *collector) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for which, sum := range s.cache() {
		gauge(cachedObjectsDesc, float64(sum.objects), which.resource, which.selector)
		gauge(cachedBytesDesc, float64(sum.bytes), which.resource, which.selector)
		to <- prometheus.MustNewConstMetric(cacheListsDesc, prometheus.CounterValue, float64(sum.lists), which.resource, which.selector)
	}
	healths := s.controllers.health()
	for name, ready := range s.controllers.readiness(healths) {
		gauge(readyDesc, ready, name)
	}
	for name, health := range healths {
		for priority, depth := range health.Queue.Depth {
			gauge(queueDepthDesc, float64(depth), name, queue.Priority(priority).String())
		}
		gauge(queueBackoffDesc, float64(health.Queue.Backoff), name)
		gauge(parentsDesc, float64(health.Parents), name)
		gauge(childrenDesc, float64(health.Children), name)
		gauge(heldDeletionsDesc, float64(health.Held.Count), name)
		gauge(inErrorDesc, float64(health.Failing), name)
		gauge(overdueCallsDesc, float64(health.Overdue), name)
		gauge(conflictingDesc, float64(health.Conflicting), name)
	}
}
