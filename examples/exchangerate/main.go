// Command exchangerate writes exchange rates to ConfigMaps: an ExchangeRate names a
// currency, and the ConfigMap of its name has the rate.
//
// service.go calls the rate service; this file has the controller.
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

// ExchangeRate requests the rate of a currency.
type ExchangeRate struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec   ExchangeRateSpec   `json:"spec"`
	Status ExchangeRateStatus `json:"status,omitzero"`
}

type ExchangeRateSpec struct {
	Currency string `json:"currency"`
}

// ExchangeRateStatus is the last rate and its currency.
type ExchangeRateStatus struct {
	Rate     string `json:"rate,omitempty"`
	Currency string `json:"currency,omitempty"`
}

//go:embed crd.yaml
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
	rates.OnCreate("publish", s.publish, setpoint.Timeout(5*time.Second), setpoint.Backoff(time.Second, time.Minute))
	rates.OnUpdate("publish", s.publish, setpoint.Field("spec.currency"))
	rates.Every("publish", every, s.publish)
	rates.OnDrift("restore", restore)
}

// publish gets the rate. If that fails, nothing changes, Setpoint retries, and a
// condition and an event report the error.
func (s *rateService) publish(ctx context.Context, c *setpoint.Call[ExchangeRate]) error {
	rate, err := s.rate(ctx, c.Object.Spec.Currency)
	if err != nil {
		return err
	}
	now := ExchangeRateStatus{Rate: rate, Currency: c.Object.Spec.Currency}
	if now != c.Object.Status {
		c.Event("Published", "a euro is %s %s", now.Rate, now.Currency)
	}
	c.Object.Status = now
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
