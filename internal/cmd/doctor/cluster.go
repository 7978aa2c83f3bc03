package doctor

import (
	"cmp"
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
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/setpoint-dev/setpoint/internal/admission/register"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/rbac"
	"github.com/setpoint-dev/setpoint/internal/redact/guess"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// cluster is the cluster that was found, and what its API server responded first.
type cluster struct {
	// finding says whether the API server responds; the rest is set if it does.
	finding

	config *rest.Config
	client rest.Interface
	clock  clock
}

// connectTimeout bounds the first request to the API server.
const connectTimeout = 5 * time.Second

// connect finds the cluster and asks its API server for its version.
func connect(ctx context.Context, of client.ClusterFlags) *cluster {
	c := &cluster{}
	c.finding = c.connect(ctx, of)
	return c
}

func (c *cluster) connect(ctx context.Context, of client.ClusterFlags) finding {
	if of == (client.ClusterFlags{}) {
		path, err := client.SessionKubeconfig()
		if err != nil {
			return isFailed.because("%s", cause(err)).fixedBy("for another cluster: --kubeconfig FILE or --context NAME")
		}
		of.Kubeconfig = path
	}
	found, err := of.FindConfigured()
	configured := of != (client.ClusterFlags{}) || os.Getenv(clientcmd.RecommendedConfigPathEnvVar) != ""
	if errors.Is(err, manager.ErrNoCluster) && !configured {
		return isNotChecked.because("no kubeconfig").fixedBy("setpoint dev starts a cluster; --kubeconfig FILE names one")
	}
	if err == nil {
		c.config = found.Config
		c.config.UserAgent = found.UserAgent
		c.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &dated{RoundTripper: next, clock: &c.clock} })
		c.client, err = request.NewClient(c.config)
	}
	if err != nil {
		return isFailed.because("%s", cause(err)).fixedBy("correct $KUBECONFIG, --kubeconfig or --context")
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	text, err := request.Do(ctx, c.client.Get().AbsPath("/version").MaxRetries(0))
	var served apiversion.Info
	if err == nil {
		err = json.Unmarshal(text, &served)
	}
	where := c.describe(of, found.InCluster)
	if err != nil && !apierrors.IsForbidden(err) { // Who may not read the version has a response, too.
		return isFailed.because("%s: %s", where, cause(err)).fixedBy(advice(err))
	}
	if err := manager.CheckVersion(served.GitVersion); err != nil {
		return isFailed.because("%s: %v", where, err)
	}
	user := cmp.Or(rbac.Username(ctx, c.client), "an unknown user")
	return isOK.because("%s, is Kubernetes %s, for %s", where, cmp.Or(served.GitVersion, "of an unknown version"), user)
}

// describe names the API server, without credentials, and the kubeconfig.
func (c *cluster) describe(of client.ClusterFlags, inCluster bool) string {
	server := c.client.Get().AbsPath("/").URL()
	server.User = nil
	address := strings.TrimSuffix(server.String(), "/")
	if inCluster {
		return address + " of this pod"
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = of.Kubeconfig
	if loaded, err := rules.Load(); err == nil {
		of.Context = cmp.Or(of.Context, loaded.CurrentContext)
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
		return "get a new kubeconfig, and check the clock: the certificate of this API server is not accepted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "start the cluster, or choose another one with --context or --kubeconfig"
	case unknownHost, errors.Is(err, context.DeadlineExceeded):
		return "check the address in the kubeconfig, the network, the VPN and $HTTPS_PROXY"
	}
	return "compare with `kubectl get --raw /version -v6`"
}

// clock has the time in the first response of the API server, zero if it has none, and when that was received.
type clock struct {
	first          sync.Once
	date, received time.Time
}

// dated is a transport that reads the clock of the API server.
type dated struct {
	http.RoundTripper

	clock *clock
}

// RoundTrip implements http.RoundTripper.
func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := d.RoundTripper.RoundTrip(r)
	if err == nil {
		d.clock.first.Do(func() {
			d.clock.date, _ = http.ParseTime(response.Header.Get("Date"))
			d.clock.received = time.Now()
		})
	}
	return response, err
}

// tolerated is the clock skew that is not reported. It is above connectTimeout, by which a late response may add to it.
const tolerated = 10 * time.Second

// judgeClock compares the date in a response with the time at which it was received.
func judgeClock(date, received time.Time) finding {
	ahead, word := date.Sub(received).Round(time.Second), "ahead"
	if ahead < 0 {
		word = "behind"
	}
	switch {
	case date.IsZero():
		return isNotChecked.because("the response of the API server has no date")
	case ahead.Abs() <= tolerated:
		return isOK.because("within %s of that of the API server", tolerated)
	}
	return isWarning.because("that of the API server is %s %s; certificates and tokens may be refused", ahead.Abs(), word).
		fixedBy("set the clocks by NTP")
}

// rights says what the user lacks for `setpoint run`.
func (c *cluster) rights(ctx context.Context, namespace string) finding {
	required := manager.RunPermissions(manager.Options{Config: c.config, Settings: compile.Settings{Namespace: namespace}})
	missing, err := rbac.Missing(ctx, c.client, required)
	switch {
	case err != nil:
		return isNotChecked.because("%s", cause(err))
	case len(missing) > 0:
		return isWarning.because("not enough for setpoint run in %s; you may not %s", namespace, missing.Summary()).
			fixedBy("use the ServiceAccount of the install manifests, or have a cluster admin grant this")
	}
	return isOK.because("all for setpoint run in %s; setpoint rbac prints what controllers need", namespace)
}

// webhooks says whether the API server reaches the registered webhooks.
func (c *cluster) webhooks(ctx context.Context) finding {
	all, err := register.ProbeStored(ctx, c.client)
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
	list := func(of register.Reachability) string { return strings.Join(states[of], "; ") }
	switch {
	case len(all) == 0:
		return isOK.because("none of Setpoint is registered")
	case list(register.Unreachable) != "":
		return isFailed.because("the API server does not reach %s", list(register.Unreachable)).
			fixedBy("start Setpoint and open its port to the API server; if Setpoint is gone, setpoint uninstall")
	case list(register.Reachable) != "":
		return isOK.because("the API server reaches %s", list(register.Reachable))
	}
	return isNotChecked.because("%s", list(register.ReachabilityUnknown))
}
