package apptest_test

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane/apptest"
)

// plane is what the tests here share, parallel as they are. It is made of the
// binary that $SETPOINT names, else of the one that `make build` has made.
var plane = apptest.ControlPlane{Executable: cmp.Or(os.Getenv("SETPOINT"), filepath.Join("..", "..", "bin", "setpoint"))}

func TestMain(m *testing.M) { plane.Main(m) }
