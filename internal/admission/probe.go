package admission

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
	"github.com/setpoint-dev/setpoint/internal/object"
)

// probeLabel is at the Leases that the probe of a program is about, and at no
// others.
const probeLabel = "setpoint.dev/probe"

// probeName is the name of the webhook that is asked, which no other can have: it
// has a dot in it.
const probeName = "probe.self"

// probeTimeout is how long the API server tries to reach us for a probe.
const probeTimeout = 5 * time.Second

var leases = object.Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease", Namespaced: true}

// probeWebhook is a webhook that nothing meets but probes.
func (r Registration) probeWebhook(p *Program, bundle []byte) admissionv1.ValidatingWebhook {
	q := newWebhook(fullName(probeName, p), r.Address.clientConfig(r.registeredPath(p.probePath()), bundle), probeTimeout)
	q.Rules = []admissionv1.RuleWithOperations{ruleOf(Rule{
		Group: leases.Group, Version: leases.Version, Resources: []string{leases.Plural},
		Operations: []hook.Operation{hook.OperationCreate},
	}, admissionv1.NamespacedScope)}
	q.NamespaceSelector.MatchLabels = map[string]string{corev1.LabelMetadataName: r.Namespace}
	q.ObjectSelector.MatchLabels = map[string]string{probeLabel: probeValue(p)}
	return q
}

// probeValue tells the probe of one program from that of another.
func probeValue(p *Program) string {
	if value := pathSegment(p.Configuration); len(value) <= 63 {
		return value
	}
	return digest(p.Configuration)
}

// errNotCalled says that a Lease was let through without asking us.
var errNotCalled = errors.New("the API server does not ask the webhooks, although they are registered")

// unreachableError is what the API server met on its way to us.
type unreachableError struct{ text string }

func (u *unreachableError) Error() string { return u.text }

// sendProbe has the API server ask us. An error that is not an *unreached and not
// errNotCalled says that this cannot be found out.
func (r Registration) sendProbe(ctx context.Context, client rest.Interface, p *Program) error {
	ctx, cancel := context.WithTimeout(ctx, 3*probeTimeout)
	defer cancel()
	body, err := json.Marshal(coordinationv1.Lease{
		TypeMeta:   metav1.TypeMeta{APIVersion: leases.APIVersion(), Kind: leases.Kind},
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, GenerateName: "setpoint-probe-", Labels: map[string]string{probeLabel: probeValue(p)}},
	})
	if err != nil {
		return err
	}
	result := client.Post().AbsPath(leases.Path(r.Namespace, "")).Param("dryRun", metav1.DryRunAll).
		SetHeader("Content-Type", "application/json").SetHeader("Accept", "application/json").
		WarningHandler(rest.NoWarnings{}).MaxRetries(0).Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		return probeError(err, fullName(probeName, p))
	}
	for _, warning := range result.Warnings() {
		if warning.Text == probeWarning {
			return nil
		}
	}
	return errNotCalled
}

// probeError says what the answer to a probe means that failed.
func probeError(err error, webhook string) error {
	_, says, ours := strings.Cut(err.Error(), fmt.Sprintf("failed calling webhook %q: ", webhook))
	if ours {
		return &unreachableError{shortenError(says)}
	}
	return err
}

// shortenError is what matters to a user of why a call has failed: not that it was one,
// not the URL that they know, and not what differs each time.
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

// apiServerUnavailable says that the API server itself could not be asked.
func apiServerUnavailable(err error) bool {
	var status apierrors.APIStatus
	return err != nil && !errors.As(err, &status) && !errors.Is(err, errNotCalled) && !isUnreachable(err)
}

func isUnreachable(err error) bool {
	_, is := errors.AsType[*unreachableError](err)
	return is
}
