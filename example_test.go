package setpoint_test

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint"
)

// errUnknownCurrency is an error that a retry does not fix.
var errUnknownCurrency = errors.New("unknown currency")

// fetch asks a service for a rate.
func fetch(context.Context, string) (string, error) { return "1.19", nil }

// publishRate keeps the rate of an ExchangeRate in a ConfigMap.
func publishRate(ctx context.Context, c *setpoint.Call[ExchangeRate]) error {
	rate, err := fetch(ctx, c.Object.Spec.Currency)
	switch {
	case errors.Is(err, errUnknownCurrency):
		return setpoint.Permanent(err) // Not again before the object changes.
	case err != nil:
		return err // Again, after a backoff.
	}
	// It is named like the object, in its namespace, and goes with it.
	c.Apply(&corev1.ConfigMap{Data: map[string]string{"rate": rate}})
	c.Object.Status.Rate = rate
	c.Event("Published", "the rate of %s is %s", c.Object.Spec.Currency, rate)
	return nil
}

// A whole operator.
func Example() {
	app := setpoint.New("exchangerates")
	app.InstallCRDs([]byte(rateCRD))
	rates := setpoint.For[ExchangeRate](app)
	rates.Owns(&corev1.ConfigMap{})
	rates.Handle("publish-rate", publishRate, setpoint.Field("spec.currency"), setpoint.Jitter(time.Minute)).
		OnCreate().OnUpdate().OnDrift().Every(time.Hour)
	app.Main()
}

// Kinds without a Go type are handled as Unstructured.
func ExampleKind() {
	app := setpoint.New("guitars")
	guitars := setpoint.For[setpoint.Unstructured](app, setpoint.Kind("kool.karmalabs.local/v1", "Guitar"))
	review := func(_ context.Context, c *setpoint.Call[setpoint.Unstructured]) error {
		spec, _ := c.Object.Object["spec"].(map[string]any)
		spec["review"] = true
		return nil
	}
	guitars.Handle("review", review, setpoint.FieldIs("spec.review", false)).OnCreate()
	app.Main()
}

// What a handler remembers of an object, until the object or the program goes.
func ExampleMemory() {
	type visits struct{ n int }
	_ = func(_ context.Context, c *setpoint.Call[ExchangeRate]) error {
		v := setpoint.Memory[visits](c)
		v.n++
		c.Log.Info("handled", "times", v.n)
		return nil
	}
}

// Pods by the ConfigMaps that they mount, to find the pods that a change affects.
func ExampleNewIndex() {
	app := setpoint.New("restarter")
	pods := setpoint.For[corev1.Pod](app)
	mounting := setpoint.NewIndex(pods, func(p *corev1.Pod) []string {
		var all []string
		for _, v := range p.Spec.Volumes {
			if v.ConfigMap != nil {
				all = append(all, p.Namespace+"/"+v.ConfigMap.Name)
			}
		}
		return all
	})
	restart := func(_ context.Context, c *setpoint.Call[corev1.ConfigMap]) error {
		for _, pod := range mounting.Get(c.Object.Namespace + "/" + c.Object.Name) {
			c.Evict(pod)
		}
		return nil
	}
	maps := setpoint.For[corev1.ConfigMap](app)
	maps.Evicts()
	maps.Handle("restart", restart, setpoint.Field("data"), setpoint.Debounce(time.Second)).OnUpdate()
	app.Main()
}

// A Deployment for each Site.
func ExampleCompose() {
	type Site struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata,omitzero"`

		Spec struct {
			Replicas int32 `json:"replicas"`
		} `json:"spec"`
		Status struct {
			Ready int32 `json:"ready"`
		} `json:"status,omitzero"`
	}
	app := setpoint.New("sites")
	sites := setpoint.Compose[Site](app, setpoint.Kind("example.com/v1", "Site"))
	sites.Owns(&appsv1.Deployment{})
	sites.Sync(func(_ context.Context, f *setpoint.ComposeContext[Site]) error {
		f.Apply(&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &f.Parent.Spec.Replicas}})
		if web := setpoint.Child[appsv1.Deployment](f, f.Parent.Name); web != nil {
			f.Parent.Status.Ready = web.Status.ReadyReplicas
		}
		return nil
	})
	app.Main()
}

// A daemon works for each object as long as it is there.
func ExampleHandlers_Daemon() {
	app := setpoint.New("tickers")
	rates := setpoint.For[ExchangeRate](app)
	follow := func(ctx context.Context, c *setpoint.Call[ExchangeRate]) error {
		for {
			rate, err := fetch(ctx, c.Object.Spec.Currency)
			if err != nil {
				return err // Started again, after a backoff.
			}
			c.Object.Status.Rate = rate
			if err := c.Write(); err != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Minute):
			}
		}
	}
	rates.Daemon("follow", follow)
	app.Main()
}
