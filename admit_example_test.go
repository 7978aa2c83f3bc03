package setpoint_test

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint"
)

// addProxy reviews a pod before it is created.
func addProxy(_ context.Context, r *setpoint.Review[corev1.Pod]) error {
	isProxy := func(c corev1.Container) bool { return c.Name == "proxy" }
	if slices.ContainsFunc(r.Object.Spec.Containers, isProxy) {
		return nil // The API server calls it again with its own result.
	}
	r.Object.Spec.Containers = append(r.Object.Spec.Containers, corev1.Container{Name: "proxy", Image: "proxy:1"})
	return nil
}

// keepCurrency reviews updates of ExchangeRates.
func keepCurrency(_ context.Context, r *setpoint.Review[ExchangeRate]) error {
	if r.Old.Spec.Currency != r.Object.Spec.Currency {
		return setpoint.Invalid("spec.currency: stays %s; make another ExchangeRate", r.Old.Spec.Currency)
	}
	return nil
}

// Admission functions run before the API server stores an object. They need no watch of pods.
func ExampleHandlers_Mutate() {
	app := setpoint.New("proxies")
	pods := setpoint.For[corev1.Pod](app)
	pods.Mutate("add-proxy", addProxy, setpoint.NamespaceLabels("proxies=yes"))
	app.Main()
}

// A rule that a schema cannot express.
func ExampleHandlers_Validate() {
	app := setpoint.New("exchangerates")
	app.InstallCRDs([]byte(rateCRD))
	rates := setpoint.For[ExchangeRate](app)
	rates.Handle("publish-rate", publishRate).OnCreate()
	rates.Owns(&corev1.ConfigMap{})
	rates.Validate("keep-currency", keepCurrency, setpoint.On(setpoint.OperationUpdate))
	app.Main()
}
