// Package apptest runs the app of a Go operator in its tests, against a real
// control plane.
//
//	var plane apptest.ControlPlane
//
//	func TestMain(m *testing.M) { plane.Main(m) }
//
//	func TestPublish(t *testing.T) {
//		cluster := plane.Start(t, newApp(server.URL)) // in a namespace of the test's own
//		cluster.Apply(`{apiVersion: …, kind: ExchangeRate, metadata: {name: mine}, spec: {currency: USD}}`)
//		apptest.Await(cluster, "mine", func(cm *corev1.ConfigMap) error {
//			if cm.Data["rate"] != "1.19" {
//				return fmt.Errorf("the rate is %q", cm.Data["rate"])
//			}
//			return nil
//		})
//	}
//
// The control plane is booted by the first test that takes part in it, which takes
// about four seconds, and serves all tests of the package, also parallel ones.
// Nothing is printed unless a test fails, or -v is given; then the app's log is
// part of the test's output.
//
// # What runs it
//
// The control plane is made of processes of the setpoint binary: that of
// $SETPOINT, else the setpoint on the PATH. Then a go.mod needs no more than the
// requirement of this module: nothing of Kubernetes' servers is compiled, and the
// tests link in the time that they always took.
//
// Or the test binary is all there is, which is slow to build (Kubernetes is
// compiled, once) but needs nothing installed:
//
//	var plane = apptest.ControlPlane{Programs: components.Main}
//
// components is the package beside this one. Kubernetes cannot be imported without
// the replace lines of its staging modules. Go ignores those of dependencies, so
// that the module with such tests has to repeat ours:
//
//	dir=$(go list -m -f '{{.Dir}}' github.com/setpoint-dev/setpoint/controlplane)
//	sed -n '/^replace (/,/^)/p' "$dir/go.mod" >>go.mod
//	go mod tidy
//
// Tests in a module of their own, such as tests/go.mod, spare the operator's own
// module both.
//
// $SETPOINT_TEST_KUBECONFIG names a control plane that is there already, such as
// that of `setpoint dev`; it is used in place of one of our own, and what failed
// tests leave can be looked at. $KUBECONFIG is ignored: it may name a
// production cluster.
//
// # What lives here
//
// A control plane for the tests of a package, an app at work in it, reading and
// writing objects of Go types, and waiting for them. What must not: how an app works
// and how a control plane does; expectations, which are functions of the tests.
// Tests of programs call.
package apptest
