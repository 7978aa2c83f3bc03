package setpoint

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// What is at work is known by name.
func TestInFlightCalls(t *testing.T) {
	app := New("app")
	pods := For[corev1.Pod](app)
	begun, end := make(chan bool), make(chan bool)
	pods.OnCreate("linger", func(context.Context, *Call[corev1.Pod]) error {
		begun <- true
		<-end
		return nil
	})
	h, err := sdk.Of(app).Handler("linger")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	ctx, output := call.WithOutput(t.Context())
	go func() {
		_, err := h.Handle(ctx, &hook.HandlerRequest{Object: pod(t, "one").JSON(), Namespace: "shop", Name: "one"})
		done <- err
	}()
	<-begun
	if got := app.inFlight.names(); !slices.Equal(got, []string{"handler linger of Pod shop/one"}) {
		t.Errorf("got %q", got)
	}
	if code := output.Code(); code.Digest == "" || code.Since.IsZero() {
		t.Errorf("the code of the program is %+v", code)
	}
	close(end)
	if err := <-done; err != nil || len(app.inFlight.names()) != 0 {
		t.Errorf("got %v, and %q is at work", err, app.inFlight.names())
	}
}
