package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/cluster"
	"github.com/setpoint-dev/setpoint/test/bench/internal/load"
)

// The resources of the objects and of Setpoint's controllers.
const (
	groupPath      = "/apis/operators.brennerm.github.io/v1"
	resource       = "exchangerates"
	crdPath        = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/exchangerates.operators.brennerm.github.io"
	controllerPath = "/apis/setpoint.dev/v1alpha1/handlercontrollers/exchangerates"
)

func objectsPath(namespace string) string {
	return groupPath + "/namespaces/" + namespace + "/" + resource
}

func configMapsPath(namespace string) string { return load.ChildrenPath(namespace) }

// nameOf is the name of the i-th object, and of its ConfigMap.
func nameOf(i int) string { return fmt.Sprintf("rate-%04d", i) }

// environment is what all contenders find: a control plane with the kind, a service to
// ask, and a user to be, whose requests are counted.
type environment struct {
	options
	dir, kubeconfig string
	since           time.Time
	controlPlane    *cluster.ControlPlane
	admin           *cluster.Client
	rates           *rateService
}

func newEnvironment(ctx context.Context, o options, dir string) (*environment, error) {
	s := &environment{options: o, dir: dir, kubeconfig: filepath.Join(dir, "contender.kubeconfig"), since: time.Now()}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	s.progress("control plane ready")
	return s, nil
}

func (s *environment) open(ctx context.Context) (err error) {
	if s.rates, err = serveRates(); err != nil {
		return err
	}
	if s.controlPlane, err = cluster.Boot(ctx, filepath.Join(s.bin, "setpoint"), s.dir); err != nil {
		return err
	}
	if s.admin, err = cluster.Connect(s.controlPlane.Kubeconfig); err != nil {
		return err
	}
	crd, err := os.ReadFile(filepath.Join(s.root, example, crdFile))
	if err != nil {
		return fmt.Errorf("read the kind: %w", err)
	}
	if err := s.admin.Apply(ctx, crdPath, crd); err != nil {
		return err
	}
	if err := cluster.CreateIdentity(ctx, s.admin, s.kubeconfig); err != nil {
		return err
	}
	acting, err := cluster.Connect(s.kubeconfig)
	if err != nil {
		return err
	}
	if err := cluster.InstallCounters(ctx, s.admin, acting, resource); err != nil {
		return err
	}
	return s.warmUp(ctx)
}

// warmUp makes each kind of request once, and waits until the garbage collector knows
// the kind: it discovers new ones every 30 seconds.
func (s *environment) warmUp(ctx context.Context) error {
	const namespace, objects = "compare-warm-up", 100
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, errors.New("the garbage collector does not collect"))
	defer cancel()
	if err := cluster.Poll(ctx, "the kind to be served", func() (bool, error) {
		_, err := s.admin.Get(ctx, groupPath+"/"+resource)
		return err == nil, nil
	}); err != nil {
		return err
	}
	sights, err := s.createNamespace(ctx, namespace)
	if err != nil {
		return err
	}
	defer sights.close()
	if err := load.Each(ctx, objects, s.workers, func(ctx context.Context, i int) error {
		return s.createAsOperator(ctx, namespace, nameOf(i))
	}); err != nil {
		return err
	}
	if err := s.delete(ctx, namespace, objects); err != nil {
		return err
	}
	return sights.wait(ctx, sights.deleted(0, objects))
}

// createAsOperator does an operator's work once: it creates an object, and its ConfigMap.
func (s *environment) createAsOperator(ctx context.Context, namespace, name string) error {
	stored, err := s.admin.Create(ctx, objectsPath(namespace), bodyOf(name))
	if err != nil {
		return err
	}
	owner := new(observedObject)
	if err := jsonInto(stored, owner); err != nil {
		return err
	}
	_, err = s.admin.Create(ctx, configMapsPath(namespace), fmt.Appendf(nil,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"%s","ownerReferences":[`+
			`{"apiVersion":"operators.brennerm.github.io/v1","kind":"ExchangeRate","name":"%[1]s","uid":"%s"}]}}`,
		name, owner.Metadata.UID))
	return err
}

// createNamespace makes a namespace and looks at what happens in it.
func (s *environment) createNamespace(ctx context.Context, namespace string) (*observed, error) {
	generator := load.Generator{Client: s.admin, Workers: s.workers}
	if err := generator.CreateNamespace(ctx, namespace); err != nil {
		return nil, err
	}
	return observe(ctx, s.admin, namespace)
}

func bodyOf(name string) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"operators.brennerm.github.io/v1","kind":"ExchangeRate",`+
		`"metadata":{"name":"%s"},"spec":{"currency":"%s"}}`, name, initialCurrency)
}

func (s *environment) create(ctx context.Context, namespace string, objects int) error {
	return load.Each(ctx, objects, s.workers, func(ctx context.Context, i int) error {
		_, err := s.admin.Create(ctx, objectsPath(namespace), bodyOf(nameOf(i)))
		return err
	})
}

// change gives objects another currency.
func (s *environment) change(ctx context.Context, namespace string, objects int, currency string) error {
	return load.Each(ctx, objects, s.workers, func(ctx context.Context, i int) error {
		return s.changeOne(ctx, namespace, i, currency)
	})
}

func (s *environment) changeOne(ctx context.Context, namespace string, i int, currency string) error {
	return s.admin.Merge(ctx, objectsPath(namespace)+"/"+nameOf(i), fmt.Appendf(nil, `{"spec":{"currency":"%s"}}`, currency))
}

func (s *environment) delete(ctx context.Context, namespace string, objects int) error {
	return load.Each(ctx, objects, s.workers, func(ctx context.Context, i int) error {
		return s.admin.Delete(ctx, objectsPath(namespace)+"/"+nameOf(i))
	})
}

func (s *environment) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%7.1fs  %s\n", time.Since(s.since).Seconds(), fmt.Sprintf(format, args...))
}

func (s *environment) close() error {
	if s.rates != nil {
		_ = s.rates.server.Close()
	}
	if s.controlPlane == nil {
		return nil
	}
	return s.controlPlane.Stop()
}
