// Package workspace reads the files of an operator and compiles its controllers without a cluster: kinds are
// those of the CRDs in the files and those of Kubernetes. It starts the local programs of setpoint.yaml that
// serve the hooks.
//
// It runs no controller. Package testcase calls the hooks, package explore runs the loops, and the command line
// looks up kinds.
package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/configmap"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/conflicts"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// Options of Open. Paths, Output and Executable are required.
type Options struct {
	// Paths are folders and files. A folder with a setpoint.yaml has the manifests and the programs that it
	// lists, another one all manifests in it. Tests are in any file of a folder, and in its folder tests.
	Paths []string
	// Inline, Exec, Expressions, Dial and Routed are as in compile.Environment.
	Inline      func(ctx context.Context, script call.Script) (call.Program, error)
	Exec        func(command call.Command) (call.Transport, error)
	Expressions func(source string, variables ...string) (compile.Predicate, error)
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
	Routed      func(address string) bool
	// Operator starts an operator in Python, which a process of setpoint.yaml runs, for the kinds that are served.
	Operator func(ctx context.Context, run project.Process, kinds []served.Kind) (Operator, error)
	// Check returns why the API server would not store a controller; nil for no check.
	Check func(*object.Object) error
	// Executable is the path of this program.
	Executable string
	// Output receives what a local program prints.
	Output func(name string) process.Output
}

// Operator is a process that has declared its controllers.
type Operator interface {
	Compile(ctx context.Context, env compile.Environment) ([]*compile.Compiled, error)
	Close()
}

// Workspace is an opened set of files.
type Workspace struct {
	// Controllers are those of both API groups, in the order of the files.
	Controllers []*Controller
	// Objects are the objects that are neither controllers nor CRDs nor tests, in the order of the files.
	Objects []*object.Object
	// CRDs are the CustomResourceDefinitions.
	CRDs []*object.Object
	// Tests are the documents of test.setpoint.dev.
	Tests []manifest.Document
	Kinds *Kinds

	options  Options
	files    *files
	programs *programs
	// operators are open.
	operators []Operator
	env       compile.Environment
}

// Controller is a compiled controller.
type Controller struct {
	*compile.Compiled

	Kind compile.Kind
	// Object is as in the file.
	Object *object.Object
	// Document says where it is.
	Document manifest.Document
}

// String returns such as "CompositeController/rolling-set".
func (c *Controller) String() string { return c.Object.Kind() + "/" + c.Object.Name() }

// Read reads the files and starts nothing; Compile does.
func Read(o Options) (*Workspace, error) {
	all, err := readFiles(o.Paths)
	if err != nil {
		return nil, err
	}
	w := &Workspace{options: o, files: all}
	objects, err := manifest.Objects(all.documents)
	if err != nil {
		return nil, err
	}
	if w.Kinds, err = NewKinds(objects); err != nil {
		return nil, err
	}
	err = w.sort()
	return w, err
}

// Open reads the files, compiles the controllers and starts the local programs that serve their hooks.
func Open(ctx context.Context, o Options) (*Workspace, error) {
	w, err := Read(o)
	if err == nil {
		err = w.Compile(ctx)
	}
	if err != nil && w != nil {
		w.Close()
	}
	return w, err
}

// Compile compiles the controllers and starts the local programs that serve their hooks. It returns all errors.
func (w *Workspace) Compile(ctx context.Context) error {
	if err := w.prepare(); err != nil {
		return err
	}
	var problems []error
	for _, c := range w.Controllers {
		if err := c.build(ctx, w.env, w.options.Check); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", c.Document.Locate(err), c, err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return err
	}
	for _, p := range w.programs.operators {
		if err := w.openOperator(ctx, p); err != nil {
			return fmt.Errorf("%s: %s: %w", p.file, p.Describe(), err)
		}
	}
	addresses := lists.FlatMap(w.Controllers, func(c *Controller) []string { return c.HookAddresses })
	return w.programs.start(ctx, addresses)
}

// Conflicts returns why Setpoint would refuse controllers because of one before them in the files.
func (w *Workspace) Conflicts() (problems []error) {
	for i, c := range w.Controllers {
		for _, older := range w.Controllers[:i] {
			if found, is := conflicts.Find(older.Compiled, c.Compiled); is {
				key := queue.Key{Namespace: older.Object.Kind(), Name: older.Object.Name()}
				problems = append(problems, fmt.Errorf("%s: %s: %w", c.Document, c, found.Refusal(key)))
			}
		}
	}
	return problems
}

// build compiles a controller of a file, whose unknown fields and wrong values the API server would refuse.
func (c *Controller) build(ctx context.Context, env compile.Environment, check func(*object.Object) error) (err error) {
	if err := compile.CheckFields(c.Object); err != nil {
		return err
	}
	c.Compiled, err = c.Kind.Compile(ctx, c.Object, env)
	if err == nil && check != nil {
		err = check(c.Object)
	}
	return err
}

// CanOpenAgain reports whether the workspace was opened from files.
func (w *Workspace) CanOpenAgain() bool { return len(w.options.Paths) > 0 }

// Again opens the same files once more: the processes of hooks, and the engines of inline ones, are new and remember
// nothing.
func (w *Workspace) Again(ctx context.Context) (*Workspace, error) { return Open(ctx, w.options) }

// Elsewhere returns the addresses of a controller's hooks that no program of the files serves. Those of inline and exec hooks
// have no port.
func (w *Workspace) Elsewhere(c *Controller) []string {
	return slices.DeleteFunc(slices.Clone(c.HookAddresses), func(address string) bool {
		_, _, err := net.SplitHostPort(address)
		return err != nil || w.programs.serving(address) != nil
	})
}

// Environment returns what the controllers were compiled with, to compile others.
func (w *Workspace) Environment() compile.Environment { return w.env }

// SamplesOf returns the objects of the kinds that a controller manages.
func (w *Workspace) SamplesOf(c *Controller) []*object.Object {
	managed, _, _ := c.Resources()
	return lists.Filter(w.Objects, func(o *object.Object) bool {
		return slices.ContainsFunc(managed, func(r object.Resource) bool { return r.GroupKind() == o.GroupKind() })
	})
}

// Close ends the programs and the code of inline hooks.
func (w *Workspace) Close() {
	for _, c := range w.Controllers {
		c.Close()
	}
	for _, o := range w.operators {
		o.Close()
	}
	if w.env.Sources != nil {
		w.env.Sources.Close()
	}
	if w.env.Store != nil {
		w.env.Store.Close()
	}
	if w.programs != nil {
		w.programs.stop()
	}
}

// namespace is where `setpoint dev` stores namespaced objects of cluster-scoped parents.
const namespace = "default"

// prepare sets what the controllers are compiled with: the defaults of `setpoint run`, and the rights of this
// process for all of them.
func (w *Workspace) prepare() error {
	client, err := request.NewClient(&rest.Config{Host: "http://files.invalid", Transport: &fileServer{w.Objects}, QPS: -1})
	if err != nil {
		return err
	}
	if w.programs, err = newPrograms(w.options, w.files.projects); err != nil {
		return err
	}
	store := cache.New(client, cache.Options{})
	w.env = compile.Environment{
		Settings: compile.Settings{
			Inline: w.options.Inline, Exec: w.options.Exec, Expressions: w.options.Expressions,
			Dial: w.programs.dial, Routed: w.programs.routed,
			Namespace: namespace, OwnRights: true, ApplyStrategy: plan.Merge, FieldManager: "metacontroller",
		},
		Resolve: w.Kinds.Resolve, ResolveKind: w.Kinds.ResolveKind, StatusOf: w.Kinds.StatusOf, UserAgent: "setpoint-test",
		Store: store, Sources: configmap.NewDryRunReader(store, w.Objects...),
	}
	return nil
}

// sort sorts the documents out. Objects of namespaced kinds are in a namespace, as after kubectl apply.
func (w *Workspace) sort() error {
	var problems []error
	for _, d := range w.files.documents {
		if err := w.add(d); err != nil {
			problems = append(problems, fmt.Errorf("%s: %s: %w", d, d.Object.GetName(), err))
		}
	}
	return errors.Join(problems...)
}

func (w *Workspace) add(d manifest.Document) error {
	if d.IsTest() {
		w.Tests = append(w.Tests, d)
		return checkTest(d)
	}
	o, err := w.complete(d)
	if err != nil {
		return err
	}
	switch kind, controls := compile.KindOf(o); {
	case controls:
		w.Controllers = append(w.Controllers, &Controller{Kind: kind, Object: o, Document: d})
	case o.Kind() == crds.Resource.Kind:
		w.CRDs = append(w.CRDs, o)
	default:
		w.Objects = append(w.Objects, o)
	}
	return nil
}

// complete returns the object of a document, in its namespace.
func (w *Workspace) complete(d manifest.Document) (*object.Object, error) {
	apiVersion, kind := d.Object.GetAPIVersion(), d.Object.GetKind()
	if _, controls := compile.KindNamed(apiVersion, kind); !controls {
		// Also of objects with a namespace: a controller names the plural of a kind without a CRD.
		resource, err := w.Kinds.ResolveKind(context.Background(), apiVersion, kind)
		if err == nil && resource.Namespaced && d.Object.GetNamespace() == "" {
			d.Object.SetNamespace(namespace)
		}
	}
	all, err := manifest.Objects([]manifest.Document{d})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// DocumentOf says where an object is.
func (w *Workspace) DocumentOf(o *object.Object) manifest.Document {
	at := slices.IndexFunc(w.files.documents, func(d manifest.Document) bool { return manifest.RefOf(d.Object) == o.Ref().Identity() })
	return w.files.documents[at]
}

// Digests identify the files with controllers, by their names.
func (w *Workspace) Digests() map[string]string {
	all := map[string]string{}
	for _, c := range w.Controllers {
		if text, err := os.ReadFile(c.Document.File); err == nil {
			sum := sha256.Sum256(text)
			all[c.Document.File] = hex.EncodeToString(sum[:8])
		}
	}
	return all
}

// openOperator starts an operator in Python of the files, and adds the controllers that it declares.
func (w *Workspace) openOperator(ctx context.Context, p *program) error {
	o, err := w.options.Operator(ctx, p.Process, w.Kinds.All())
	if err != nil {
		return err
	}
	w.operators = append(w.operators, o)
	all, err := o.Compile(ctx, w.env)
	for _, compiled := range all {
		declared, err := declaredBy(compiled)
		if err != nil {
			return err
		}
		kind, _ := compile.KindOf(declared)
		w.Controllers = append(w.Controllers, &Controller{Compiled: compiled, Kind: kind, Object: declared,
			Document: manifest.Document{File: p.file}})
	}
	return err
}

// declaredBy returns the controller that an operator has declared.
func declaredBy(c *compile.Compiled) (*object.Object, error) {
	var text json.RawMessage
	switch {
	case len(c.Handlers) > 0:
		text = c.Handlers[0].Object
	case c.Admission != nil:
		text = c.Admission.Object
	}
	return object.Parse(text)
}
