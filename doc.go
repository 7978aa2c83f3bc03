// Package setpoint is the Go SDK: operators as functions.
//
//	app := setpoint.New("exchangerates")
//	app.InstallCRDs(crd)
//	rates := setpoint.For[v1.ExchangeRate](app)
//	rates.Owns(&corev1.ConfigMap{})
//	publish := rates.Handle("publish", publishRate, setpoint.Field("spec.currency"))
//	publish.OnCreate().OnUpdate().OnDrift().Every(time.Hour)
//	app.Main()
//
// A handler reacts to what happened to one object. It changes the object, requests what
// to apply and delete, and returns. Setpoint writes the changes, records what each handler
// has handled, and retries failures:
//
//	func publishRate(ctx context.Context, c *setpoint.Call[v1.ExchangeRate]) error {
//		rate, err := fetch(ctx, c.Object.Spec.Currency)
//		if err != nil {
//			return err // Setpoint retries after a backoff.
//		}
//		c.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": rate}})
//		c.Object.Status.Rate = rate
//		return nil
//	}
//
// Compose manages the children of a parent: a function returns the desired children for
// the observed ones. Handlers.Mutate and Handlers.Validate review objects before the API
// server stores them.
//
// This package contains the names that a Go program uses to define and run controllers.
// The reconcile loops and the API machinery are internal. Package setpointtest calls
// handlers in tests without a cluster; controlplane/apptest runs apps against a real API
// server.
package setpoint
