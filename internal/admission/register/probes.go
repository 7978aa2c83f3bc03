package register

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// probes check for each program whether the API server reaches the server. One goroutine
// uses them.
type probes struct {
	registrar *Registrar
	running   sync.WaitGroup
	byKey     map[probeKey]*prober
}

// probeKey identifies a program for a probe.
type probeKey struct{ name, configuration string }

type prober struct {
	stop context.CancelFunc
	// now requests a probe, and more of them for a while.
	now signal
}

// sync probes the registered programs, and no others.
func (p *probes) sync(ctx context.Context) {
	programs, _ := p.registrar.wanted()
	former := maps.Clone(p.byKey)
	for _, program := range programs {
		key := probeKey{program.Name, program.Configuration}
		delete(former, key)
		if p.byKey[key] == nil && len(program.Webhooks) > 0 && !program.Unprobed && p.registrar.Health(program.Name).Registered {
			p.byKey[key] = p.start(ctx, program)
		}
	}
	for key, one := range former {
		one.stop()
		delete(p.byKey, key)
	}
}

func (p *probes) start(ctx context.Context, program *admission.Program) *prober {
	ctx, stop := context.WithCancel(ctx)
	one := &prober{stop, newSignal()}
	p.running.Go(func() { p.registrar.runProbes(ctx, program, one.now) })
	return one
}

// wake probes a program now.
func (p *probes) wake(program string) {
	for key, one := range p.byKey {
		if key.name == program {
			one.now.send()
		}
	}
}

// stop stops all probes and waits for them.
func (p *probes) stop() {
	for _, one := range p.byKey {
		one.stop()
	}
	p.running.Wait()
}

// Probes are frequent after a change, then less frequent, but stay frequent while they
// fail.
const (
	minProbeInterval     = 250 * time.Millisecond
	maxProbeInterval     = 30 * time.Second
	failingProbeInterval = 5 * time.Second
)

// runProbes probes a program until ctx ends.
func (r *Registrar) runProbes(ctx context.Context, p *admission.Program, wakeup <-chan struct{}) {
	delay, failures := minProbeInterval, 0
	for ctx.Err() == nil {
		err := sendProbe(ctx, r.options.Client, probe{r.options.Namespace, probeValue(p), fullName(probeName, p)})
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			failures = 0
		case !apiServerUnavailable(err):
			failures++
		}
		r.reportReachability(p, err, failures)
		limit := maxProbeInterval
		if err != nil {
			limit = failingProbeInterval
		}
		timer := r.options.Clock.NewTimer(min(delay, limit))
		select {
		case <-timer.C():
			delay = min(2*delay, maxProbeInterval)
		case <-wakeup:
			delay, failures = minProbeInterval, 0
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// probeFailureThreshold is how many probes must fail in a row. The first probe after a
// change may precede the API server's update.
const probeFailureThreshold = 3

// reportReachability reports a conclusive result of a probe.
func (r *Registrar) reportReachability(p *admission.Program, err error, failures int) {
	reachability, message := Reachable, ""
	switch {
	case err == nil:
	case failures < probeFailureThreshold || apiServerUnavailable(err):
		return
	case isUnreachable(err):
		reachability, message = Unreachable, err.Error()
	default:
		reachability, message = ReachabilityUnknown, "probe in namespace "+r.options.Namespace+": "+err.Error()
	}
	r.updateHealth(p.Name, func(h *Health) { h.Reachability, h.ReachabilityMessage = reachability, message })
}

// ProbeStored makes the API server call the webhooks of all processes of Setpoint, with the rights of the client, and
// returns the health of each stored configuration by its name. Health.Problem says why one could not be probed.
func ProbeStored(ctx context.Context, client rest.Interface) (map[string]Health, error) {
	found := map[string]Health{}
	for _, resource := range Resources() {
		// The lists of both resources have the same encoding.
		var stored admissionv1.MutatingWebhookConfigurationList
		text, err := request.Do(ctx, client.Get().AbsPath(resource.Path("", "")).Param("labelSelector", AnyGroup))
		if err == nil {
			err = json.Unmarshal(text, &stored)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource, err)
		}
		for i := range stored.Items {
			name := stored.Items[i].Name
			if found[name].Reachability == ReachabilityUnknown {
				found[name] = probeStored(ctx, client, &stored.Items[i])
			}
		}
	}
	return found, nil
}

// probeStored probes a configuration. Of two with the same name, one has the probe.
func probeStored(ctx context.Context, client rest.Interface, c *configuration) Health {
	i := slices.IndexFunc(c.Webhooks, func(w admissionv1.MutatingWebhook) bool { return strings.HasPrefix(w.Name, probeName+".") })
	if i < 0 {
		return Health{Registered: true, Problem: "it has no probe"}
	}
	w := &c.Webhooks[i]
	namespaces, _ := metav1.LabelSelectorAsMap(w.NamespaceSelector)
	objects, _ := metav1.LabelSelectorAsMap(w.ObjectSelector)
	err := sendProbe(ctx, client, probe{namespaces[corev1.LabelMetadataName], objects[probeLabel], w.Name})
	switch {
	case err == nil:
		return Health{Registered: true, Reachability: Reachable}
	case isUnreachable(err):
		return Health{Registered: true, Reachability: Unreachable, ReachabilityMessage: err.Error()}
	}
	return Health{Registered: true, Problem: err.Error()}
}
