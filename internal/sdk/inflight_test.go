package sdk

import (
	"context"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// What is at work is known by name.
func TestInFlightCalls(t *testing.T) {
	app := NewApp("app")
	pods := NewHandlers(app, reflect.TypeFor[corev1.Pod]())
	begun, end := make(chan bool), make(chan bool)
	linger := pods.AddHandler("linger")
	linger.AddReason(hook.ReasonCreate)
	linger.Once = func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		c, err := NewCall(&pods.Controller, "linger", nil, n.Object)
		if err != nil {
			return nil, err
		}
		return nil, c.Invoke(ctx, "handler", "linger", func() error {
			begun <- true
			<-end
			return nil
		})
	}
	h := must.Get(app.Handler("linger")).In(t)
	done := make(chan error)
	ctx, output := call.WithOutput(t.Context())
	go func() {
		_, err := h.Handle(ctx, &hook.HandlerRequest{Object: pod(t, "one").JSON(), Namespace: "shop", Name: "one"})
		done <- err
	}()
	<-begun
	if got := app.calls.names(); !slices.Equal(got, []string{"handler linger of Pod shop/one"}) {
		t.Errorf("got %q", got)
	}
	if code := output.Code(); code.Digest == "" || code.Since.IsZero() {
		t.Errorf("the code of the program is %+v", code)
	}
	close(end)
	if err := <-done; err != nil || len(app.calls.names()) != 0 {
		t.Errorf("got %v, and %q is at work", err, app.calls.names())
	}
}
