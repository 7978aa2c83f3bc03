package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/redact/guess"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// reached is what the first request to the API server led to.
type reached struct {
	found manager.Cluster
	// unknown is why there is no cluster, err why its API server does not respond.
	unknown, err error
	client       rest.Interface
	version      string
	answer       answer
}

// answer is the time in a response, and when the request was sent and the response received.
type answer struct{ date, sent, received time.Time }

// dated is a transport that keeps the time of the latest response.
type dated struct {
	http.RoundTripper

	latest *answer
}

// RoundTrip implements http.RoundTripper.
func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	response, err := d.RoundTripper.RoundTrip(r)
	if err == nil {
		date, _ := http.ParseTime(response.Header.Get("Date")) // Zero without one.
		*d.latest = answer{date, sent, time.Now()}
	}
	return response, err
}

// connect asks the API server for its version.
func connect(place *client.PlaceFlags) *reached {
	r := &reached{}
	if r.found, r.unknown = place.Find(); r.unknown != nil {
		return r
	}
	r.found.Config.UserAgent = r.found.UserAgent
	if r.client, r.err = request.NewClient(r.found.Config); r.err != nil {
		return r
	}
	timed := rest.CopyConfig(r.found.Config)
	timed.Wrap(func(next http.RoundTripper) http.RoundTripper { return dated{next, &r.answer} })
	first, err := request.NewClient(timed)
	if r.err = err; err != nil {
		return r
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	text, err := request.Do(ctx, first.Get().AbsPath("/version").MaxRetries(0))
	var served apiversion.Info
	if err == nil {
		err = json.Unmarshal(text, &served)
	}
	if !apierrors.IsForbidden(err) { // Who may not read the version has a response, too.
		r.err = err
	}
	r.version = served.GitVersion
	return r
}

// whenReached returns a check that needs the API server.
func whenReached(reach func() *reached, run func(context.Context, *reached) finding) func(context.Context) finding {
	return func(ctx context.Context) finding {
		r := reach()
		if r.unknown != nil || r.err != nil {
			return isNotChecked.because("no cluster is reached")
		}
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		return run(ctx, r)
	}
}

// check says which cluster is used, and what its API server responds.
func (r *reached) check(ctx context.Context, of client.ClusterFlags) finding {
	switch configured := of != (client.ClusterFlags{}) || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != ""; {
	case errors.Is(r.unknown, manager.ErrNoCluster) && !configured:
		return isNotChecked.because("no kubeconfig").fixedBy("setpoint dev starts a cluster; --kubeconfig FILE names one")
	case r.unknown != nil:
		return isFailed.because("%s", cause(r.unknown)).fixedBy("correct $KUBECONFIG, --kubeconfig or --context")
	}
	where := r.describe(of)
	if r.err != nil {
		return isFailed.because("%s: %s", where, cause(r.err)).fixedBy(advice(r.err))
	}
	if err := manager.CheckVersion(r.version); err != nil {
		return isFailed.because("%s: %v", where, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return isOK.because("%s, is Kubernetes %s, for %s", where, r.version, manager.User(ctx, r.found.Config))
}

// describe names the kubeconfig and the API server, without credentials.
func (r *reached) describe(of client.ClusterFlags) string {
	address := "an invalid address"
	if server, _, err := rest.DefaultServerUrlFor(r.found.Config); err == nil {
		server.User, server.RawQuery = nil, ""
		address = server.String()
	}
	if r.found.InCluster {
		return address + " of this pod"
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = of.Kubeconfig
	if loaded, err := rules.Load(); err == nil && of.Context == "" {
		of.Context = loaded.CurrentContext
	}
	return fmt.Sprintf("%s, context %s of %s", address, of.Context, strings.Join(rules.GetLoadingPrecedence(), ", "))
}

// cause returns the text of an error without addresses and what looks like a secret.
func cause(err error) string {
	if request, is := errors.AsType[*url.Error](err); is {
		err = request.Err
	}
	return guess.Text(failure.OneLine(err))
}

// advice says what to do about an API server that does not respond.
func advice(err error) string {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknownHost := errors.AsType[*net.DNSError](err)
	switch {
	case apierrors.IsUnauthorized(err):
		return "sign in again, or get a new kubeconfig: the credentials are not accepted"
	case certificate:
		return "get a new kubeconfig: it has no CA for the certificate of this API server"
	case unknownHost:
		return "check the address in the kubeconfig, the network and the VPN"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start the cluster, or choose another one with --context or --kubeconfig"
	case errors.Is(err, context.DeadlineExceeded):
		return "check the network, the VPN, the firewall and $HTTPS_PROXY"
	}
	return "compare with `kubectl get --raw /version -v6`"
}

const (
	// tolerated is the difference of clocks that nobody notices, and refused one by which certificates and tokens fail.
	tolerated = 5 * time.Second
	refused   = 5 * time.Minute
)

// judgeClock says how far the clock of the API server, whose answer has whole seconds, is from that of this machine.
func judgeClock(a answer) finding {
	if a.date.IsZero() {
		return isNotChecked.because("the response of the API server has no date")
	}
	taken := a.received.Sub(a.sent)
	ahead := a.date.Add(time.Second / 2).Sub(a.sent.Add(taken / 2)).Round(time.Second)
	word := "ahead"
	if ahead < 0 {
		word = "behind"
	}
	found := isWarning.because("that of the API server is %s %s; certificates and tokens may be refused", ahead.Abs(), word).
		fixedBy("set the clocks by NTP")
	switch off := ahead.Abs() - taken; {
	case off <= tolerated:
		return isOK.because("within %s of that of the API server", tolerated+taken.Round(time.Second))
	case off > refused:
		found.State = isFailed
	}
	return found
}

// rights says what the user lacks for `setpoint run`.
func (r *reached) rights(ctx context.Context, namespace string) finding {
	work, install, err := manager.RunPermissions(manager.Options{Config: r.found.Config, Namespace: namespace})
	if err == nil {
		work, err = rbac.Missing(ctx, r.client, work)
	}
	if err == nil {
		install, err = rbac.Missing(ctx, r.client, install)
	}
	if err != nil {
		return isNotChecked.because("%s", cause(err))
	}
	return judgeRights(work.Lines(), install.Lines(), namespace)
}

// judgeRights says what is missing for the work of Setpoint in a namespace, or only to install its CRDs.
func judgeRights(work, install []string, namespace string) finding {
	switch {
	case len(work) > 0:
		return isWarning.because("not enough for setpoint run in %s; you may not ", namespace).listing(work).
			fixedBy("use the ServiceAccount of the install manifests, or have a cluster admin grant this")
	case len(install) > 0:
		return isWarning.because("enough for setpoint run in %s, but not to install its CRDs; you may not ", namespace).listing(install).
			fixedBy("have a cluster admin apply crds.yaml, and use setpoint run --crds=skip")
	}
	return isOK.because("all for setpoint run in %s; setpoint rbac prints what controllers need", namespace)
}

// webhooks says whether the API server reaches the registered webhooks.
func (r *reached) webhooks(ctx context.Context) finding {
	all, err := register.ProbeStored(ctx, r.client)
	if err != nil {
		return isNotChecked.because("%s", cause(err))
	}
	return judgeWebhooks(all)
}

// judgeWebhooks summarizes the health of webhook configurations.
func judgeWebhooks(all map[string]register.Health) finding {
	states := map[register.Reachability][]string{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		health := all[name]
		line := strings.TrimSuffix(name+": "+health.ReachabilityMessage+health.Problem, ": ")
		states[health.Reachability] = append(states[health.Reachability], line)
	}
	switch {
	case len(all) == 0:
		return isOK.because("none of Setpoint is registered")
	case len(states[register.Unreachable]) > 0:
		return isFailed.because("the API server does not reach ").listing(states[register.Unreachable]).
			fixedBy("start Setpoint and open its port to the API server; if Setpoint is gone, setpoint uninstall")
	case len(states[register.Reachable]) > 0:
		return isOK.because("the API server reaches ").listing(states[register.Reachable])
	}
	return isNotChecked.because("").listing(states[register.ReachabilityUnknown])
}
