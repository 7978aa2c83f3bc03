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

// metrics are the metrics of the manager and its controllers. No label has an object's
// name, so the cardinality stays low.
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

// durationBuckets are the buckets of all histograms of durations.
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
		runs:         counter("setpoint_reconciles_total", "Reconciliations of objects, by outcome.", "controller", "outcome"),
		runTime:      histogram("setpoint_reconcile_duration_seconds", "Duration of reconciliations, including hook calls and writes.", "controller"),
		queueWait:    histogram("setpoint_queue_wait_seconds", "Time that objects waited in the queue.", "controller"),
		hookCalls:    counter("setpoint_hook_requests_total", "Hook calls, by hook (sync, finalize, customize, handle or admit) and HTTP status code; code 0 means no response.", "controller", "hook", "code"),
		hookTime:     histogram("setpoint_hook_request_duration_seconds", "Duration of hook calls.", "controller", "hook"),
		handlerCalls: counter("setpoint_handler_calls_total", "Handler calls, by reason and outcome: ok, retry (after a delay), terminal (no retry until the object changes), timeout or error.", "controller", "handler", "reason", "outcome"),
		handlerTime:  histogram("setpoint_handler_duration_seconds", "Duration of handler calls.", "controller", "handler"),
		reviews:      counter("setpoint_admission_reviews_total", "Admission reviews, by result: allowed, mutated, denied, or error, to which the failure policy applies.", "controller", "webhook", "operation", "result"),
		reviewTime:   histogram("setpoint_admission_duration_seconds", "Duration of admission reviews.", "controller", "webhook"),
		writes:       counter("setpoint_api_requests_total", "Requests to the API server, by outcome: ok, or the reason of the error.", "resource", "verb", "outcome"),
		writeTime:    histogram("setpoint_api_request_duration_seconds", "Duration of requests to the API server.", "verb"),
	}
	m.registry.MustRegister(m.runs, m.runTime, m.queueWait, m.hookCalls, m.hookTime, m.handlerCalls, m.handlerTime, m.reviews, m.reviewTime, m.writes, m.writeTime,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observeRun counts a reconciliation from the queue.
func (m *metrics) observeRun(run *record.Run) {
	if run.Trigger != "" {
		return
	}
	m.runs.WithLabelValues(run.Controller, string(run.Outcome)).Inc()
	m.runTime.WithLabelValues(run.Controller).Observe(run.Duration.Seconds())
	m.queueWait.WithLabelValues(run.Controller).Observe(run.QueueDuration.Seconds())
}

// observeHandler counts a handler call.
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

// deleteController deletes the series of a removed controller.
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

// registerCollector registers the gauges that are computed at each scrape.
func (m *metrics) registerCollector(cached *cache.Cache, running *controllerSet) {
	m.registry.MustRegister(&collector{cached: cached, controllers: running})
}

// collector computes gauges from the cache and the controllers.
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
	cacheListsDesc    = newDesc("setpoint_cache_lists_total", "Complete lists of a watch.", "resource", "selector")
	queueDepthDesc    = newDesc("setpoint_queue_depth", "Queued objects, by priority.", "controller", "priority")
	queueBackoffDesc  = newDesc("setpoint_queue_backoff", "Objects backing off before a retry.", "controller")
	parentsDesc       = newDesc("setpoint_objects", "Objects managed by a controller.", "controller")
	childrenDesc      = newDesc("setpoint_children", "Children owned by these objects.", "controller")
	readyDesc         = newDesc("setpoint_controller_ready", "1 if the condition Ready of a controller is True, else 0.", "controller")
	overdueCallsDesc  = newDesc("setpoint_calls_overdue", "Calls of hooks, handlers and webhooks that have not returned after their timeout.", "controller")
	heldDeletionsDesc = newDesc("setpoint_deletions_held", "Deletions that the deletion guard holds until they are confirmed.", "controller")
	inErrorDesc       = newDesc("setpoint_objects_failing", "Objects whose latest reconciliation failed.", "controller")
	conflictingDesc   = newDesc("setpoint_objects_conflicting", "Objects that are throttled because they, or their children, change repeatedly.", "controller")
)

// Describe implements prometheus.Collector.
func (s *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{cachedObjectsDesc, cachedBytesDesc, cacheListsDesc, queueDepthDesc, queueBackoffDesc, parentsDesc, childrenDesc, heldDeletionsDesc, inErrorDesc, conflictingDesc, overdueCallsDesc, readyDesc} {
		to <- d
	}
}

// cacheSeries are the labels of a series of the cache.
type cacheSeries struct{ resource, selector string }

type cacheSum struct{ objects, bytes, lists int }

// cache sums the watches of one series: objects may be watched both whole and by metadata.
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
