package register

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	// probeLabel selects the Leases of probes.
	probeLabel = "setpoint.dev/probe"
	// probeName is the name of the probe webhook. Its dot prevents conflicts with other names.
	probeName = "probe.self"
	// probeTimeout is how long the API server waits for the response to a probe.
	probeTimeout = 5 * time.Second
)

// probeWebhook returns a webhook that matches only probes.
func (r Registration) probeWebhook(p *admission.Program, mutates bool, bundle []byte) admissionv1.MutatingWebhook {
	q := newWebhook(fullName(probeName, p), mutates, r.Address.clientConfig(r.registeredPath(p.ProbePath()), bundle), probeTimeout)
	q.Rules = []admissionv1.RuleWithOperations{ruleOf(admission.Rule{
		Group: object.Leases.Group, Version: object.Leases.Version, Resources: []string{object.Leases.Plural},
		Operations: []hook.Operation{hook.OperationCreate},
	}, admissionv1.NamespacedScope)}
	q.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: r.Namespace}
	q.ObjectSelector.MatchLabels = map[string]string{probeLabel: probeValue(p)}
	return q
}

// probeValue distinguishes the probes of programs.
func probeValue(p *admission.Program) string {
	if value := admission.PathSegment(p.Configuration); len(value) <= 63 {
		return value
	}
	return admission.Digest(p.Configuration)
}

// unreachableError is the API server's error when it calls the webhook, or that it does not call it.
type unreachableError struct{ text string }

func (u *unreachableError) Error() string { return u.text }

// probe is a webhook, and the namespace and label of the Leases for which the API server calls it.
type probe struct{ namespace, label, webhook string }

// sendProbe makes the API server call the webhook. Errors other than *unreachableError mean that the probe itself failed.
func sendProbe(ctx context.Context, client rest.Interface, p probe) error {
	ctx, cancel := context.WithTimeout(ctx, 3*probeTimeout)
	defer cancel()
	body, err := json.Marshal(coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: object.Leases.APIVersion(), Kind: object.Leases.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, GenerateName: "setpoint-probe-",
			Labels: map[string]string{probeLabel: p.label}},
	})
	if err != nil {
		return err
	}
	result := client.Post().AbsPath(object.Leases.Path(p.namespace, "")).Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		WarningHandler(rest.NoWarnings{}).MaxRetries(0).Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		return probeError(err, p.webhook)
	}
	for _, warning := range result.Warnings() {
		if warning.Text == admission.ProbeWarning {
			return nil
		}
	}
	return &unreachableError{"the API server does not call the registered webhooks"}
}

// probeError interprets the error of a probe.
func probeError(err error, webhook string) error {
	if _, says, ours := strings.Cut(err.Error(), fmt.Sprintf("failed calling webhook %q: ", webhook)); ours {
		return &unreachableError{shortenError(says)}
	}
	return err
}

// shortenError keeps the cause of a failed call, without the URL and the fact that a call
// failed.
func shortenError(text string) string {
	text = strings.TrimPrefix(text, "failed to call webhook: ")
	text = callPattern.ReplaceAllString(text, "")
	text = timePattern.ReplaceAllString(text, "")
	return portPattern.ReplaceAllString(text, "$1 $2")
}

var (
	callPattern = regexp.MustCompile(`^Post "[^"]*": `)
	// Why a certificate is not valid says what time it is.
	timePattern = regexp.MustCompile(`current time \S+ is `)
	// A connection is named by both its ends, of which one is picked at random.
	portPattern = regexp.MustCompile(`\b(read|write) tcp \S+->(\S+:)`)
)

// apiServerUnavailable reports that the API server did not respond.
func apiServerUnavailable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status) && !isUnreachable(err)
}

func isUnreachable(err error) bool {
	_, is := errors.AsType[*unreachableError](err)
	return is
}
