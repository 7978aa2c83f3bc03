package apptest_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
	"github.com/setpoint-dev/setpoint/controlplane/apptest"
)

// This file is an operator and its test, as docs/sdk.md has them.

//go:embed testdata/crd.yaml
var crd []byte

// ExchangeRate is of the kind that crd defines.
type ExchangeRate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Currency string `json:"currency"`
	} `json:"spec"`
	Status struct {
		Rate string `json:"rate,omitempty"`
	} `json:"status,omitzero"`
}

func newApp(address string) *setpoint.App {
	app := setpoint.New("exchangerates")
	app.InstallCRDs(crd)
	rates := setpoint.For[ExchangeRate](app)
	rates.Owns(&corev1.ConfigMap{})
	publish := func(ctx context.Context, c *setpoint.Call[ExchangeRate]) error {
		rate, err := fetchRate(ctx, address, c.Object.Spec.Currency)
		if err != nil {
			return err
		}
		c.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": rate}})
		c.Object.Status.Rate = rate
		return nil
	}
	rates.Handle("publish", publish, setpoint.Field("spec.currency")).OnCreate().OnUpdate().OnDrift()
	return app
}

// fetchRate asks the service at an address for a rate.
func fetchRate(ctx context.Context, address, currency string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/latest?symbols="+currency, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	var parsed struct{ Rates map[string]json.Number }
	if err := json.NewDecoder(response.Body).Decode(&parsed); err != nil {
		return "", fmt.Errorf("read the rate: %w", err)
	}
	return parsed.Rates[currency].String(), nil
}

// exchange starts a rate service, and counts its requests.
func exchange(t testing.TB) (address string, called *atomic.Int32) {
	t.Helper()
	called = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		called.Add(1)
		fmt.Fprint(w, `{"rates": {"USD": 1.19, "CHF": 0.94}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL, called
}

func TestPublish(t *testing.T) {
	t.Parallel()
	address, _ := exchange(t) // a local server
	cluster := plane.Start(t, newApp(address))
	cluster.Apply(`
apiVersion: operators.brennerm.github.io/v1
kind: ExchangeRate
metadata: {name: mine}
spec: {currency: USD}
`)
	apptest.Await(cluster, "mine", rateIs("1.19"))
	apptest.Update(cluster, "mine", func(r *ExchangeRate) { r.Spec.Currency = "CHF" })
	apptest.Await(cluster, "mine", rateIs("0.94"))
	apptest.Delete[corev1.ConfigMap](cluster, "mine") // by hand
	apptest.Await(cluster, "mine", rateIs("0.94"))
}

func rateIs(want string) func(*corev1.ConfigMap) error {
	return func(cm *corev1.ConfigMap) error {
		if got := cm.Data["rate"]; got != want {
			return fmt.Errorf("the rate is %q, not %q", got, want)
		}
		return nil
	}
}

// TestDocumentationMatches: what a reader copies compiles, and works.
func TestDocumentationMatches(t *testing.T) {
	t.Parallel()
	text := readText(t, "../../docs/sdk.md")
	at := strings.Index(text, "func TestPublish(t *testing.T) {\n\tt.Parallel()")
	if at < 0 {
		t.Fatal("docs/sdk.md has no TestPublish with a control plane")
	}
	shown, _, _ := strings.Cut(text[at:], "```")
	if !strings.Contains(readText(t, "example_test.go"), strings.TrimSpace(shown)) {
		t.Errorf("docs/sdk.md shows what is not in example_test.go:\n%s", shown)
	}
}

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
