package e2e

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/test/loadbalancer"
)

// TestAdmission runs two replicas behind a Service, and stops them and deletes their
// certificates and their Secret while pods are being created. The Service has the type
// ExternalName: there is no pod network here, and the API server resolves Services
// itself.
func TestAdmission(t *testing.T) {
	t.Parallel()
	c := bootCluster(t)
	hook := httptest.NewServer(http.HandlerFunc(admit))
	t.Cleanup(hook.Close)
	s := &admissionTest{testCluster: c, parent: t, balancer: loadbalancer.New(t), load: newLoad(c)}
	c.apply(reviewedService)
	s.replicas = []*process{s.replica(), s.replica()}
	c.established("admissioncontrollers.setpoint.dev")
	c.apply(fmt.Sprintf(reviewedController, hook.URL))
	s.serving()
	c.kubectl("wait", "--for=condition=Ready", "admissioncontroller/pods", "--timeout=60s")

	s.subtest("stopped", s.replicaStopped)
	s.subtest("killed", s.replicaKilled)
	s.subtest("all killed", s.allReplicasKilled)
	s.subtest("certificates", s.certificatesRotate)
	s.subtest("withdrawn", s.controllerDeleted)
}

const reviewedService = `apiVersion: v1
kind: Namespace
metadata: {name: setpoint-system}
---
apiVersion: v1
kind: Service
metadata: {name: setpoint, namespace: setpoint-system}
spec: {type: ExternalName, externalName: localhost}
`

const reviewedController = `apiVersion: setpoint.dev/v1alpha1
kind: AdmissionController
metadata: {name: pods}
spec:
  webhooks:
  - name: check
    type: Validate
    rules: [{apiVersion: v1, resource: pods, operations: [CREATE]}]
    webhook: {url: "%s"}
`

// admit is a hook that allows all pods but bad ones.
func admit(w http.ResponseWriter, r *http.Request) {
	var review struct{ Name string }
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	response := `{"allowed": true}`
	if review.Name == "bad" {
		response = `{"allowed": false, "message": "no bad pods"}`
	}
	_, _ = io.WriteString(w, response) // the caller may be dead
}

// admissionTest is a cluster whose pods are reviewed.
type admissionTest struct {
	*testCluster

	// parent is the test whose parts these are.
	parent   *testing.T
	balancer *loadbalancer.LoadBalancer
	load     *load
	replicas []*process
}

// replica starts one more Setpoint. It outlives the part that started it.
func (s *admissionTest) replica(flags ...string) *process {
	part := s.t
	s.t = s.parent
	defer func() { s.t = part }()
	return s.run(append(flags, "--namespace", "setpoint-system", "--leader-elect",
		"--leader-elect-lease-duration", "3s", "--leader-elect-renew-deadline", "2s", "--leader-elect-retry-period", "500ms",
		"--admission-service", "setpoint", "--admission-service-port", strconv.Itoa(s.balancer.Port()))...)
}

// subtest is a subtest. What it waits for in vain is its failure.
func (s *admissionTest) subtest(name string, do func(*testing.T)) {
	s.parent.Run(name, func(t *testing.T) {
		s.t = t
		defer func() { s.t = s.parent }()
		do(t)
	})
}

// updateBackends has the Service lead to the replicas that are ready, as readiness probes would.
func (s *admissionTest) updateBackends() {
	var addresses []string
	for _, p := range s.replicas {
		if p.ready() {
			addresses = append(addresses, p.findInLog(`msg="serving webhooks" address=(\S+)`))
		}
	}
	s.balancer.SetBackends(addresses...)
}

func (p *process) ready() bool { return p.findInLog(`(msg=ready )`) != "" }

// findInLog returns the first group of a pattern's match in the log, "" without a match.
func (p *process) findInLog(pattern string) string {
	log, err := os.ReadFile(p.log)
	if err != nil {
		return ""
	}
	found := regexp.MustCompile(pattern).FindSubmatch(log)
	if found == nil {
		return ""
	}
	return string(found[1])
}

// serving waits until all replicas are ready.
func (s *admissionTest) serving() {
	s.until(2*time.Minute, func() error {
		if !slices.ContainsFunc(s.replicas, func(p *process) bool { return !p.ready() }) {
			return nil
		}
		return errors.New("a replica is not ready")
	})
	s.updateBackends()
}

// leader takes the replica that leads out of the others.
func (s *admissionTest) leader() (leader *process) {
	s.until(time.Minute, func() error {
		holder, err := s.try("", "get", "lease", "setpoint", "-n", "setpoint-system", "-o", "jsonpath={.spec.holderIdentity}")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(s.replicas, func(p *process) bool {
			return holder != "" && p.findInLog("(msg=leading .*identity="+regexp.QuoteMeta(holder)+")") != ""
		})
		if i < 0 {
			return fmt.Errorf("no leader; the lease is held by %q", holder)
		}
		leader = s.replicas[i]
		return nil
	})
	s.replicas = slices.DeleteFunc(s.replicas, func(p *process) bool { return p == leader })
	return leader
}

// certificateSecret is the serving certificate and the CAs of the Secret.
type certificateSecret struct {
	serving     *x509.Certificate
	authorities []*x509.Certificate
}

func (s *admissionTest) readSecret() (k certificateSecret) {
	s.until(time.Minute, func() error {
		out, err := s.try("", "get", "secret", "setpoint-admission", "-n", "setpoint-system", "-o", "json")
		if err != nil {
			return err
		}
		var secret struct{ Data map[string][]byte }
		if err := json.Unmarshal([]byte(out), &secret); err != nil {
			return err
		}
		serving, err := certificates(secret.Data["tls.crt"])
		if err != nil {
			return err
		}
		k.serving = serving[0]
		k.authorities, err = certificates(secret.Data["ca.crt"])
		return err
	})
	return k
}

func certificates(text []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, errors.New("no certificate")
	}
	return all, nil
}

// signingCA is who of the CAs has signed the serving certificate.
func (k certificateSecret) signingCA() *x509.Certificate {
	for _, ca := range k.authorities {
		if k.serving.CheckSignatureFrom(ca) == nil {
			return ca
		}
	}
	return nil
}

// requests are the least that are made while certificates change.
const requests = 1000

// certificatesRotate rotates two certificates and a CA while pods are being created. The
// test deletes the Secret to rotate the CA, as an admin does when a key has leaked.
func (s *admissionTest) certificatesRotate(t *testing.T) {
	s.load.whileLoaded(t, 8, func() {
		first, serials := s.readSecret(), map[string]bool{}
		s.until(3*time.Minute, func() error {
			serials[s.readSecret().serving.SerialNumber.String()] = true
			if len(serials) < 3 {
				return fmt.Errorf("there were %d serving certificates", len(serials))
			}
			return nil
		})
		if !s.readSecret().signingCA().Equal(first.signingCA()) {
			t.Error("another CA signs already")
		}
		s.kubectl("delete", "secret", "setpoint-admission", "-n", "setpoint-system")
		s.until(3*time.Minute, func() error {
			if now := s.readSecret(); now.signingCA() == nil || now.signingCA().Equal(first.signingCA()) {
				return fmt.Errorf("no other CA signs, of %d", len(now.authorities))
			}
			return nil
		})
		s.until(3*time.Minute, func() error {
			if done := s.load.done(); done < requests {
				return fmt.Errorf("%d requests were made", done)
			}
			return nil
		})
	})
	s.refuses(t)
}

// refuses says that reviews are done: what is bad is refused by the hook.
func (s *admissionTest) refuses(t *testing.T) {
	t.Helper()
	err := s.load.create(t.Context(), "bad")
	if err == nil || !strings.Contains(err.Error(), "denied the request: no bad pods") {
		t.Errorf("a bad pod: %v", err)
	}
}

// replicaStopped stops the leader gracefully: no review fails, except one that is sent
// at the very moment in which a connection closes.
func (s *admissionTest) replicaStopped(t *testing.T) {
	s.serving()
	s.load.ending = true
	defer func() { s.load.ending = false }()
	s.load.whileLoaded(t, 4, func() {
		leader := s.leader()
		s.updateBackends()
		leader.stop()
		other := s.leader()
		s.replicas = append(s.replicas, other)
	})
	s.refuses(t)
	s.replicas = append(s.replicas, s.replica())
	s.serving()
}

// replicaKilled kills the leader. Its reviews in flight are lost; from then on the other
// replica responds, long before it becomes the leader.
func (s *admissionTest) replicaKilled(t *testing.T) {
	leader := s.leader()
	leader.kill()
	s.until(10*time.Second, func() error { return s.load.create(t.Context(), "good") })
	s.refuses(t)
	s.load.whileLoaded(t, 4, func() {
		s.updateBackends()
		other := s.leader()
		s.replicas = append(s.replicas, other)
		// Who leads now puts things right.
		s.kubectl("delete", "validatingwebhookconfiguration", "setpoint-pods")
		s.until(30*time.Second, func() error {
			_, err := s.try("", "get", "validatingwebhookconfiguration", "setpoint-pods")
			return err
		})
	})
	s.until(10*time.Second, func() error { return s.bad(t) })
}

// bad is nil if a bad pod is refused by the hook.
func (s *admissionTest) bad(t *testing.T) error {
	if err := s.load.create(t.Context(), "bad"); err == nil || !strings.Contains(err.Error(), "no bad pods") {
		return fmt.Errorf("a bad pod: %w", err)
	}
	return nil
}

// allReplicasKilled kills all replicas and deletes the certificates: that must not bypass a
// validating review. The replicas that start next create certificates that live so
// shortly that they are renewed every twenty seconds.
func (s *admissionTest) allReplicasKilled(t *testing.T) {
	for _, p := range s.replicas {
		p.kill()
	}
	for range 3 {
		if err := s.load.create(t.Context(), "good"); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			t.Errorf("a pod without a running webhook: %v", err)
		}
	}
	s.kubectl("delete", "secret", "setpoint-admission", "-n", "setpoint-system")
	s.replicas = nil
	for range 2 {
		s.replicas = append(s.replicas, s.replica("--admission-certificate-lifetime", "30s"))
	}
	s.serving()
	s.until(30*time.Second, func() error { return s.load.create(t.Context(), "good") })
	s.refuses(t)
}

// controllerDeleted deletes the controller: from then on there are no reviews, and in
// between no request is rejected.
func (s *admissionTest) controllerDeleted(t *testing.T) {
	s.load.whileLoaded(t, 8, func() {
		s.kubectl("delete", "admissioncontroller", "pods")
		s.until(30*time.Second, func() error { return s.load.create(t.Context(), "bad") })
		done := s.load.done()
		s.until(time.Minute, func() error {
			if now := s.load.done() - done; now < requests/10 {
				return fmt.Errorf("%d more pods were created", now)
			}
			return nil
		})
	})
	s.until(30*time.Second, func() error {
		out, err := s.try("", "get", "validatingwebhookconfigurations", "-o", "name")
		if err == nil && strings.Contains(out, "setpoint-pods") {
			err = errors.New("it is still registered")
		}
		return err
	})
}
