package serving

import (
	"crypto/x509"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/backend"
	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/events"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Metrics are the metrics of the manager and its controllers. No label has an object's
// name, so the cardinality stays low.
type Metrics struct {
	*prometheus.Registry

	runs          *prometheus.CounterVec
	runTime       *prometheus.HistogramVec
	queueWait     *prometheus.HistogramVec
	hookCalls     *prometheus.CounterVec
	hookTime      *prometheus.HistogramVec
	handlerCalls  *prometheus.CounterVec
	handlerTime   *prometheus.HistogramVec
	reviews       *prometheus.CounterVec
	reviewTime    *prometheus.HistogramVec
	notes         *prometheus.CounterVec
	droppedEvents *prometheus.CounterVec
	droppedSpans  *prometheus.CounterVec
	writes        *prometheus.CounterVec
	writeTime     *prometheus.HistogramVec

	// series have labels, most of them a controller.
	series []interface {
		DeletePartialMatch(labels prometheus.Labels) int
	}
}

// durationBuckets are the buckets of all histograms of durations.
var durationBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// NewMetrics returns metrics without values.
func NewMetrics() *Metrics {
	m := &Metrics{Registry: prometheus.NewRegistry()}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		m.MustRegister(vec)
		m.series = append(m.series, vec)
		return vec
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets}, labels)
		m.MustRegister(vec)
		m.series = append(m.series, vec)
		return vec
	}
	m.runs = counter("setpoint_reconciles_total", "Reconciliations of objects, by outcome.", "controller", "outcome")
	m.runTime = histogram("setpoint_reconcile_duration_seconds", "Duration of reconciliations, including hook calls and writes.",
		"controller")
	m.queueWait = histogram("setpoint_queue_wait_seconds", "Time that objects waited in the queue.", "controller")
	m.hookCalls = counter("setpoint_hook_requests_total", "Hook calls, by hook (sync, finalize, customize, handle, admit, index or "+
		"notifications), address (host and port, inline, or exec: with the program) and HTTP status code. Code 0 means no response; "+
		"inline and exec hooks have 200 for a response and 500 for an error.", "controller", "hook", "address", "code")
	m.hookTime = histogram("setpoint_hook_request_duration_seconds", "Duration of hook calls.", "controller", "hook", "address")
	m.handlerCalls = counter("setpoint_handler_calls_total", "Handler calls, by reason and outcome: ok, retry (after a delay), terminal "+
		"(no retry until the object changes), timeout or error.", "controller", "handler", "reason", "outcome")
	m.handlerTime = histogram("setpoint_handler_duration_seconds", "Duration of handler calls.", "controller", "handler")
	m.reviews = counter("setpoint_admission_reviews_total",
		"Admission reviews, by result: allowed, mutated, denied, or error, to which the failure policy applies.", "controller", "webhook",
		"operation", "result")
	m.reviewTime = histogram("setpoint_admission_duration_seconds", "Duration of admission reviews.", "controller", "webhook")
	m.notes = counter("setpoint_notifications_total", "Lines that processes of handlers wrote to their streams, by result: object, "+
		"event, unknown (a kind that no controller of the process handles) or malformed.", "result")
	m.droppedEvents = counter("setpoint_events_dropped_total",
		"Events on objects that were not sent, by reason: QueueFull, Rejected or Unreachable.", "reason")
	for _, reason := range []string{events.QueueFull, events.Rejected, events.Unreachable} {
		m.droppedEvents.WithLabelValues(reason) // An increase from nothing is not seen by increase().
	}
	m.droppedSpans = counter("setpoint_trace_spans_dropped_total",
		"Spans that were not sent to the collector, by reason: QueueFull or NotExported.", "reason")
	for _, reason := range []string{trace.DroppedQueueFull, trace.DroppedNotExported} {
		m.droppedSpans.WithLabelValues(reason)
	}
	m.writes = counter("setpoint_api_requests_total", "Requests to the API server, by outcome: ok, or the reason of the error.", "resource",
		"verb", "outcome")
	m.writeTime = histogram("setpoint_api_request_duration_seconds", "Duration of requests to the API server.", "verb")
	m.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// ObserveRun counts a reconciliation from the queue.
func (m *Metrics) ObserveRun(run *record.Run) {
	if run.Trigger != "" {
		return
	}
	m.runs.WithLabelValues(run.Controller, run.Outcome).Inc()
	m.runTime.WithLabelValues(run.Controller).Observe(run.Took.Seconds())
	m.queueWait.WithLabelValues(run.Controller).Observe(run.QueuedFor.Seconds())
}

// ObserveHandler counts a handler call.
func (m *Metrics) ObserveHandler(program, handler string, reason hook.Reason, took time.Duration, err error) {
	m.handlerCalls.WithLabelValues(program, handler, string(reason), inspect.CallOutcome(err)).Inc()
	m.handlerTime.WithLabelValues(program, handler).Observe(took.Seconds())
}

// ObserveReview counts a review.
func (m *Metrics) ObserveReview(o admission.ReviewRecord) {
	m.reviews.WithLabelValues(o.Program, o.Webhook, string(o.Operation), string(o.Result)).Inc()
	m.reviewTime.WithLabelValues(o.Program, o.Webhook).Observe(o.Duration.Seconds())
}

// ObserveHookCall counts a call of a hook at an address.
func (m *Metrics) ObserveHookCall(program, address string, e call.Result) {
	m.hookCalls.WithLabelValues(program, string(e.HookType), address, strconv.Itoa(e.Code)).Inc()
	m.hookTime.WithLabelValues(program, string(e.HookType), address).Observe(e.Duration.Seconds())
}

// ObserveNotification counts a line of a stream of notifications.
func (m *Metrics) ObserveNotification(result backend.Result) {
	m.notes.WithLabelValues(string(result)).Inc()
}

// ObserveDroppedEvent counts an event that is not sent.
func (m *Metrics) ObserveDroppedEvent(reason string) { m.droppedEvents.WithLabelValues(reason).Inc() }

// ObserveDroppedSpans counts spans that are not sent.
func (m *Metrics) ObserveDroppedSpans(reason string, spans int) {
	m.droppedSpans.WithLabelValues(reason).Add(float64(spans))
}

// ObserveRequest counts a request to the API server.
func (m *Metrics) ObserveRequest(resource object.Resource, verb, outcome string, took time.Duration) {
	m.writes.WithLabelValues(resource.String(), verb, outcome).Inc()
	m.writeTime.WithLabelValues(verb).Observe(took.Seconds())
}

// DeleteController deletes the series of a removed controller.
func (m *Metrics) DeleteController(program string) {
	for _, vec := range m.series {
		vec.DeletePartialMatch(prometheus.Labels{"controller": program})
	}
}

// Collector computes gauges at each scrape.
type Collector struct {
	Cache *cache.Cache
	// Controllers returns the state of each controller by name.
	Controllers func() map[string]ControllerState
	// Webhooks have a certificate; nil for none.
	Webhooks *Webhooks
	// HookProcesses are nil without inline and exec hooks.
	HookProcesses HookProcesses
}

// HookProcesses returns the figures of the processes of inline and exec hooks by controller.
type HookProcesses func() map[string]child.Figures

// ControllerState is what gauges show of a controller.
type ControllerState struct {
	Ready      bool
	Conditions []inspect.Condition
	// QueueKnown is false in a standby replica, which has all objects queued.
	QueueKnown bool
	// Health is nil if the controller does not run.
	Health *controller.Health
	// Rollout is nil without spec.rollout.
	Rollout *setpoint.RolloutStatus
}

// cacheSum are the watches of one resource and selector: objects may be watched both whole and by metadata.
type cacheSum struct {
	objects, bytes, lists int
	failing               bool
}

// series is a metric with a value for each T.
type series[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(of T) float64
}

func newDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	queueDepthDesc = newDesc("setpoint_queue_depth", "Queued objects, by priority. A standby replica has none.", "controller",
		"priority")
	oldestWaitDesc = newDesc("setpoint_queue_oldest_wait_seconds", "Time that the oldest queued object has waited for a worker.",
		"controller")
	rolloutMovedDesc = newDesc("setpoint_rollout_moved_ratio",
		"Share of the parents that are reconciled by the hooks in the spec, of a controller with spec.rollout.", "controller")
	rolloutStopDesc = newDesc("setpoint_rollout_stopped", "1 while a rollout does not go on: paused, blocked or rolled back; else 0.",
		"controller")
	rolloutShadowDesc = newDesc("setpoint_rollout_shadow_parents", "Parents for which the versions of the hooks were compared before "+
		"the first step, by result: same, different or failed.", "controller", "result")
	readyDesc     = newDesc("setpoint_controller_ready", "1 if the condition Ready of a controller is True, else 0.", "controller")
	conditionDesc = newDesc("setpoint_controller_condition", "1 for each condition of a controller, with its type, status and reason.",
		"controller", "type", "status", "reason")

	cacheSeries = []series[cacheSum]{
		{newDesc("setpoint_cached_objects", "Objects in the cache.", "resource", "selector"),
			prometheus.GaugeValue, func(s cacheSum) float64 { return float64(s.objects) }},
		{newDesc("setpoint_cached_bytes", "Bytes of JSON in the cache.", "resource", "selector"),
			prometheus.GaugeValue, func(s cacheSum) float64 { return float64(s.bytes) }},
		{newDesc("setpoint_cache_lists_total", "Complete lists of a watch.", "resource", "selector"),
			prometheus.CounterValue, func(s cacheSum) float64 { return float64(s.lists) }},
		{newDesc("setpoint_watch_up", "1 if the watches of a resource work, else 0: their objects are stale.", "resource", "selector"),
			prometheus.GaugeValue, func(s cacheSum) float64 { return oneIf(!s.failing) }},
	}
	healthSeries = []series[*controller.Health]{
		{newDesc("setpoint_queue_backoff", "Objects backing off before a retry.", "controller"),
			prometheus.GaugeValue, func(h *controller.Health) float64 { return float64(h.Queue.Backoff) }},
		{newDesc("setpoint_active_workers", "Workers that reconcile an object.", "controller"),
			prometheus.GaugeValue, func(h *controller.Health) float64 { return float64(h.Queue.Active) }},
		{newDesc("setpoint_objects", "Objects managed by a controller.", "controller"),
			prometheus.GaugeValue, func(h *controller.Health) float64 { return float64(h.Parents) }},
		{newDesc("setpoint_children", "Children owned by these objects.", "controller"),
			prometheus.GaugeValue, func(h *controller.Health) float64 { return float64(h.Children) }},
		{newDesc("setpoint_deletions_held", "Deletions that the deletion guard holds until they are confirmed.", "controller"),
			prometheus.GaugeValue, func(h *controller.Health) float64 { return float64(h.Held.Count) }},
		{newDesc("setpoint_objects_failing", "Objects whose latest reconciliation failed.", "controller"),
			prometheus.GaugeValue, func(h *controller.Health) float64 { return float64(h.Failing) }},
		{newDesc("setpoint_calls_overdue", "Calls of hooks, handlers and webhooks that have not returned after their timeout.",
			"controller"), prometheus.GaugeValue, func(h *controller.Health) float64 { return float64(h.Overdue) }},
		{newDesc("setpoint_objects_conflicting", "Objects that are throttled because they, or their children, change repeatedly.",
			"controller"), prometheus.GaugeValue, func(h *controller.Health) float64 { return float64(h.Conflicting) }},
	}
	processSeries = []series[child.Figures]{
		{newDesc("setpoint_hook_processes", "Processes of inline and exec hooks.", "controller"),
			prometheus.GaugeValue, func(f child.Figures) float64 { return float64(f.Processes) }},
		{newDesc("setpoint_hook_process_starts_total", "Starts of processes of inline and exec hooks. One ends when it was idle for 30 "+
			"s, exceeded a limit, or makes room for those of other controllers.", "controller"),
			prometheus.CounterValue, func(f child.Figures) float64 { return float64(f.Starts) }},
		{newDesc("setpoint_hook_process_memory_bytes",
			"Memory of the processes of inline and exec hooks that they do not share. Known on Linux.", "controller"),
			prometheus.GaugeValue, func(f child.Figures) float64 { return float64(f.MemoryBytes) }},
		{newDesc("setpoint_hook_process_cpu_seconds_total",
			"CPU time of the processes of inline and exec hooks. That of running ones is known on Linux.", "controller"),
			prometheus.CounterValue, func(f child.Figures) float64 { return f.CPU.Seconds() }},
	}
	certificateSeries = []series[*x509.Certificate]{
		{newDesc("setpoint_admission_certificate_not_before_timestamp_seconds",
			"Begin of the validity of the certificate of the webhook server."),
			prometheus.GaugeValue, func(c *x509.Certificate) float64 { return float64(c.NotBefore.Unix()) }},
		{newDesc("setpoint_admission_certificate_not_after_timestamp_seconds",
			"End of the validity of the certificate of the webhook server."),
			prometheus.GaugeValue, func(c *x509.Certificate) float64 { return float64(c.NotAfter.Unix()) }},
	}
)

// Describe describes nothing, which makes the collector an unchecked one: its series depend on the controllers.
func (*Collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (s *Collector) Collect(to chan<- prometheus.Metric) {
	sums := map[[2]string]cacheSum{}
	for _, w := range s.Cache.Stats() {
		labels := [2]string{w.Selection.Resource.String(), w.Selection.Labels}
		sum := sums[labels]
		sums[labels] = cacheSum{sum.objects + w.Objects, sum.bytes + w.Bytes, sum.lists + w.Lists, sum.failing || w.Err != nil || !w.Synced}
	}
	for labels, sum := range sums {
		collect(to, cacheSeries, sum, labels[:]...)
	}
	for name, state := range s.Controllers() {
		state.collect(to, name)
	}
	if s.HookProcesses != nil {
		for name, figures := range s.HookProcesses() {
			collect(to, processSeries, figures, name)
		}
	}
	if certificate := s.Webhooks.certificate(); certificate != nil {
		collect(to, certificateSeries, certificate)
	}
}

// collect writes the gauges of a controller.
func (c *ControllerState) collect(to chan<- prometheus.Metric, name string) {
	gauge(to, readyDesc, oneIf(c.Ready), name)
	for _, condition := range c.Conditions {
		gauge(to, conditionDesc, 1, name, condition.Type, condition.Status, condition.Reason)
	}
	if c.Rollout != nil {
		c.collectRollout(to, name)
	}
	if c.Health == nil {
		return
	}
	collect(to, healthSeries, c.Health, name)
	if !c.QueueKnown {
		return
	}
	gauge(to, oldestWaitDesc, c.Health.Queue.OldestWait.Seconds(), name)
	for priority, depth := range c.Health.Queue.Depth {
		gauge(to, queueDepthDesc, float64(depth), name, queue.Priority(priority).String())
	}
}

func (c *ControllerState) collectRollout(to chan<- prometheus.Metric, name string) {
	r, moved := c.Rollout, 0.0
	switch {
	case r.Phase == setpoint.RolloutComplete:
		moved = 1
	case r.Total > 0:
		moved = float64(r.Moved) / float64(r.Total)
	}
	gauge(to, rolloutMovedDesc, moved, name)
	gauge(to, rolloutStopDesc, oneIf(slices.ContainsFunc(c.Conditions, func(condition inspect.Condition) bool {
		return condition.Type == setpoint.ConditionProgressing && condition.Status == string(metav1.ConditionFalse)
	})), name)
	if s := r.Shadow; s != nil {
		gauge(to, rolloutShadowDesc, float64(s.Compared-s.Different-s.Failed), name, "same")
		gauge(to, rolloutShadowDesc, float64(s.Different), name, "different")
		gauge(to, rolloutShadowDesc, float64(s.Failed), name, "failed")
	}
}

func collect[T any](to chan<- prometheus.Metric, all []series[T], of T, labels ...string) {
	for _, one := range all {
		to <- prometheus.MustNewConstMetric(one.desc, one.kind, one.value(of), labels...)
	}
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
