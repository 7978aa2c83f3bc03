package port_test

import (
	"context"
	"fmt"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/setpoint-dev/setpoint/controlplane/internal/port"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func listen(t *testing.T, number int, control func(string, string, syscall.RawConn) error) (net.Listener, error) {
	t.Helper()
	config := net.ListenConfig{Control: control}
	return config.Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", number))
}

func shared(_, _ string, c syscall.RawConn) (err error) {
	controlErr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	})
	if controlErr != nil {
		return controlErr
	}
	return err
}

func TestReservedPort(t *testing.T) {
	reservation := must.Get(port.Reserve(0)).In(t)
	defer reservation.Release()
	if l, err := listen(t, reservation.Number(), nil); err == nil {
		l.Close()
		t.Error("a stranger got the port")
	}
	for range 2 { // the child, and again after its restart
		l := must.Get(listen(t, reservation.Number(), shared)).In(t)
		l.Close()
	}
}

func TestWantedPort(t *testing.T) {
	first := must.Get(port.Reserve(0)).In(t)
	taken := must.Get(port.Reserve(first.Number())).In(t)
	if taken.Number() == first.Number() {
		t.Error("a reserved port was given out again")
	}
	taken.Release()
	first.Release()
	again, err := port.Reserve(first.Number())
	if err != nil || again.Number() != first.Number() {
		t.Errorf("free port %d not given: %v, %v", first.Number(), again, err)
	}
	again.Release()
}
