//go:build !linux

package node_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/test/node/machine"
)

func TestMachine(t *testing.T) {
	if err := machine.Check("."); err != nil {
		t.Fatal(err)
	}
}
