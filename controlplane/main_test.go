package controlplane_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane"
)

// The clusters here are real. Their components run from the binary that the
// environment variable SETPOINT names, so that the tests themselves link without
// Kubernetes; if it is unset, the binary is built where `make build` puts it.
const binaryVariable = "SETPOINT"

// parentVariable makes the test binary a program that starts a cluster in the
// named directory and waits to be killed.
const parentVariable = "CONTROLPLANE_TEST_PARENT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(parentVariable); dir != "" {
		os.Exit(parent(dir))
	}
	if err := provideBinary(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func provideBinary() error {
	if os.Getenv(binaryVariable) != "" {
		return nil
	}
	path, err := filepath.Abs(filepath.Join("..", "bin", "setpoint"))
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./cmd/setpoint")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build %s: %w", path, err)
	}
	return os.Setenv(binaryVariable, path)
}

// parent reports the components of its cluster and then just lives.
func parent(dir string) int {
	cluster, err := controlplane.Start(context.Background(), controlplane.Options{
		DataDir:    dir,
		Executable: os.Getenv(binaryVariable),
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := json.NewEncoder(os.Stdout).Encode(cluster.Components()); err != nil {
		return 1
	}
	select {}
}
