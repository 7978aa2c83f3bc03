package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/request"
)

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
	case isUnreachable(err) || errors.Is(err, errNotCalled):
		return Health{Registered: true, Reachability: Unreachable, ReachabilityMessage: err.Error()}
	}
	return Health{Registered: true, Problem: err.Error()}
}
