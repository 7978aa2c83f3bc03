package pods

import (
	"context"
	"errors"
	"net"
	"testing"
)

// A connection that comes when nobody waits for it any more is closed.
func TestLateConnectionsAreClosed(t *testing.T) {
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan struct{})
	_, err := unlessEnded(ctx, func() (net.Conn, error) {
		<-ended
		return ours, nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("the error is %v", err)
	}
	close(ended)
	if _, err := theirs.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open still")
	}
}

func TestConnectionsInTimeAreHandedOver(t *testing.T) {
	ours, _ := net.Pipe()
	got, err := unlessEnded(t.Context(), func() (net.Conn, error) { return ours, nil })
	if got != ours || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	refused := errors.New("refused")
	if _, err := unlessEnded(t.Context(), func() (net.Conn, error) { return nil, refused }); !errors.Is(err, refused) {
		t.Errorf("the error is %v", err)
	}
}
