// Command exchangerate writes exchange rates to ConfigMaps: an ExchangeRate names a
// currency, and the ConfigMap of its name has the rate.
//
// service.go calls the rate service; this file has the kind and the controller.
//
// +groupName=operators.brennerm.github.io
// +versionName=v1
package main

import (
	"context"
	_ "embed"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
)

//go:generate go tool -modfile=../../tools/go.mod controller-gen crd paths=. output:crd:dir=.

// ExchangeRate keeps what a euro is worth in another currency in a ConfigMap of its name.
//
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=er
// +kubebuilder:printcolumn:name="Currency",type=string,JSONPath=`.spec.currency`
// +kubebuilder:printcolumn:name="Rate",type=string,JSONPath=`.status.rate`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ExchangeRate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata"`

	// +required
	Spec ExchangeRateSpec `json:"spec"`
	// +optional
	Status ExchangeRateStatus `json:"status,omitzero"`
}

// ExchangeRateSpec names the currency.
type ExchangeRateSpec struct {
	// currency is its code.
	// +required
	// +kubebuilder:validation:Enum=CAD;CHF;GBP;JPY;PLN;USD
	Currency string `json:"currency"`
}

// ExchangeRateStatus is the last good rate.
type ExchangeRateStatus struct {
	LastRate `json:",inline"`

	// conditions: Handled is False while calls of the rate service fail.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// LastRate is the last good rate and its currency.
type LastRate struct {
	// rate is the rate as the ConfigMap has it.
	// +optional
	Rate string `json:"rate,omitempty"`

	// currency is the currency of that rate.
	// +optional
	Currency string `json:"currency,omitempty"`
}

//go:embed operators.brennerm.github.io_exchangerates.yaml
var crd []byte

func main() {
	app := setpoint.New("exchangerate")
	address := app.Flags().String("rates", os.Getenv("RATES"), "`address` of the rate service; $RATES if not given")
	every := app.Flags().Duration("every", time.Hour, "how often to request a rate again")
	app.Parse()
	addControllers(app, &rateService{address: *address}, *every)
	app.Main()
}

// addControllers adds the controller to an app.
func addControllers(app *setpoint.App, s *rateService, every time.Duration) {
	app.InstallCRDs(crd)
	app.OnStart(s.check)

	rates := setpoint.For[ExchangeRate](app)
	rates.Owns(&corev1.ConfigMap{})
	publish := rates.Handle("publish", s.publish, setpoint.Field("spec.currency"),
		setpoint.Timeout(5*time.Second), setpoint.Backoff(time.Second, time.Minute))
	publish.OnCreate().OnUpdate().Every(every)
	rates.Handle("restore", restore).OnDrift()
}

// publish gets the rate. If that fails, nothing changes, Setpoint retries, and a
// condition and an event report the error.
func (s *rateService) publish(ctx context.Context, c *setpoint.Call[ExchangeRate]) error {
	rate, err := s.rate(ctx, c.Object.Spec.Currency)
	if err != nil {
		return err
	}
	now := LastRate{Rate: rate, Currency: c.Object.Spec.Currency}
	if now != c.Object.Status.LastRate {
		c.Event("Published", "a euro is %s %s", now.Rate, now.Currency)
	}
	c.Object.Status.LastRate = now
	return restore(ctx, c)
}

// restore writes the last rate to the ConfigMap, which has the name of the object and is
// owned by it.
func restore(_ context.Context, c *setpoint.Call[ExchangeRate]) error {
	if last := c.Object.Status; last.Rate != "" {
		c.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": last.Rate, "currency": last.Currency}})
	}
	return nil
}
