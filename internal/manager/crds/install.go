package crds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Options configure an Installer.
type Options struct {
	// Install are the CRDs to install.
	Install []Manifest
	// Corrected are CRDs to apply again when another manager changes them; Skip only reports such changes.
	Corrected []Manifest
	Skip      bool
	// Program is the name of the program in events.
	Program string
	Client  rest.Interface
	Log     *slog.Logger
	// Resolve returns the resource of an apiVersion and plural.
	Resolve func(ctx context.Context, apiVersion, plural string) (object.Resource, error)
	EventAt func(event hook.ObjectEvent)
	// Checked is called when a changed CRD was checked: its schema may store other fields.
	Checked func()
}

// Installer installs CRDs and keeps them while the program runs.
type Installer struct {
	options Options
	// changes are the changed CRDs to check.
	changes *queue.Queue

	mu sync.Mutex
	// deleted are the CRDs that were deleted while this process runs. They stay deleted until
	// it restarts: the deletion was intended.
	deleted map[string]bool
	drifts  map[string]*drift
}

// NewInstaller returns an Installer. It sends no request.
func NewInstaller(o Options) *Installer {
	i := &Installer{
		options: o, changes: queue.New(queue.Options{BaseDelay: time.Second, MaxDelay: 5 * time.Minute}),
		deleted: map[string]bool{}, drifts: map[string]*drift{},
	}
	for _, d := range o.Corrected {
		i.drifts[d.Name()] = &drift{manifest: d, skip: o.Skip, corrected: map[string]bool{}}
	}
	return i
}

// Names returns the names of the CRDs to install, sorted.
func (i *Installer) Names() []string { return Names(i.options.Install) }

// Install installs or upgrades the CRDs and waits until they are served. It retries while the
// API server is unreachable.
func (i *Installer) Install(ctx context.Context) error {
	for _, d := range i.wanted() {
		if err := i.retryUntilReachable(ctx, "install CRD "+d.Name(), func() error {
			if err := i.checkUpgrade(ctx, d); err != nil {
				return err
			}
			return i.apply(ctx, d) // Labels and other fields of other managers stay.
		}); err != nil {
			return err
		}
	}
	return i.Await(ctx)
}

// errBreaking means that an upgrade of a CRD would be breaking.
var errBreaking = errors.New("the upgrade is refused because it could break stored objects or clients")

// checkUpgrade returns errBreaking with the changes if the upgrade of a stored CRD is breaking.
func (i *Installer) checkUpgrade(ctx context.Context, d Manifest) error {
	if d.AllowBreaking {
		return nil
	}
	stored, err := i.stored(ctx, d.Name())
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	found, err := BreakingChanges(stored, d.Object)
	if err == nil && len(found) > 0 {
		err = fmt.Errorf("%w: %s; add a version instead, or allow breaking changes", errBreaking, strings.Join(found, "; "))
	}
	return err
}

func (i *Installer) stored(ctx context.Context, name string) (*object.Object, error) {
	return request.Object(request.Do(ctx, i.options.Client.Get().AbsPath(Resource.Path("", name))))
}

// Missing reports whether a CRD is not installed.
func (i *Installer) Missing(ctx context.Context) bool {
	return slices.ContainsFunc(i.options.Install, func(d Manifest) bool { return errors.Is(i.checkEstablished(ctx, d), errNotEstablished) })
}

// Await waits until the API server serves the CRDs.
func (i *Installer) Await(ctx context.Context) error {
	for _, d := range i.wanted() {
		if err := i.retryUntilReachable(ctx, "wait for CRD "+d.Name(), func() error { return i.checkEstablished(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

// errNotEstablished means that the CRD is not served yet.
var errNotEstablished = errors.New("not established yet")

// retryUntilReachable repeats a step until it succeeds or fails permanently.
func (i *Installer) retryUntilReachable(ctx context.Context, step string, do func() error) error {
	var last error
	logged := ""
	err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		if last = do(); last == nil {
			return true, nil
		}
		if errors.Is(last, errBreaking) || request.IsPermanent(last) {
			return false, last
		}
		if !errors.Is(last, errNotEstablished) && last.Error() != logged && ctx.Err() == nil {
			logged = last.Error()
			i.options.Log.Warn("CRDs not installed; retrying", "step", step, "error", logged)
		}
		return false, nil
	})
	if err != nil && last != nil {
		return fmt.Errorf("%s: %w", step, last)
	}
	return err
}

func (i *Installer) apply(ctx context.Context, d Manifest) error {
	applied, err := request.Object(request.Do(ctx, i.applyRequest(d)))
	if err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if c := i.drifts[applied.Name()]; c != nil {
		c.applied = versionOf(applied)
	}
	return nil
}

// fieldManager is the field manager of applied CRDs.
const fieldManager = "setpoint"

// applyRequest returns the request that applies a CRD.
func (i *Installer) applyRequest(d Manifest) *rest.Request {
	return i.options.Client.Patch("application/apply-patch+yaml").AbsPath(Resource.Path("", d.Name())).
		Param("fieldManager", fieldManager).Param("force", "true").Body(d.JSON())
}

// checkEstablished returns nil when a CRD is established and its versions are served.
func (i *Installer) checkEstablished(ctx context.Context, d Manifest) error {
	stored, err := i.stored(ctx, d.Name())
	if apierrors.IsNotFound(err) {
		return errNotEstablished
	}
	if err != nil {
		return err
	}
	var conditions []metav1.Condition
	_ = json.Unmarshal(stored.Field("status", "conditions"), &conditions) // Invalid conditions count as none.
	for _, condition := range conditions {
		switch {
		case condition.Type == "NamesAccepted" && condition.Status == metav1.ConditionFalse:
			return fmt.Errorf("names not accepted: %s", condition.Message)
		case condition.Type == "Established" && condition.Status == metav1.ConditionTrue:
			return i.checkVersionsServed(ctx, d)
		}
	}
	return errNotEstablished
}

// checkVersionsServed returns nil when the API server serves all served versions of a CRD,
// which is shortly after it is established.
func (i *Installer) checkVersionsServed(ctx context.Context, d Manifest) error {
	shape, err := definitionOf(d.Object)
	if err != nil {
		return err
	}
	for _, version := range shape.Spec.Versions {
		if !version.Served {
			continue
		}
		_, err := i.options.Resolve(ctx, shape.Spec.Group+"/"+version.Name, shape.Spec.Names.Plural)
		if errors.Is(err, compile.ErrNotServed) {
			return errNotEstablished
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// StatusOf returns which status fields the CRD of a kind has. It is empty for built-in kinds,
// and where Setpoint may not read the CRD.
func (i *Installer) StatusOf(ctx context.Context, resource object.Resource) (compile.Status, error) {
	if !resource.Custom || !resource.Status {
		return compile.Status{}, nil
	}
	stored, err := i.stored(ctx, NameOf(resource))
	switch {
	case request.IsForbiddenOrNotFound(err):
		return compile.Status{}, nil
	case err != nil:
		return compile.Status{}, fmt.Errorf("look up the schema of %s: %w", resource, err)
	}
	return StatusSchema(stored, resource.Version)
}

// reasonCRDDeleted: a user deleted a CRD that Setpoint installed; Setpoint creates it again at its next start.
// What to do: restart Setpoint, or apply the CRD.
const reasonCRDDeleted = "DefinitionDeleted"

// wanted returns the CRDs to install. Those deleted while this process runs stay deleted, also
// after a new leader election.
func (i *Installer) wanted() []Manifest {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.options.Install), func(d Manifest) bool { return i.deleted[d.Name()] })
}

// CheckDeleted returns an error if CRDs are deleted.
func (i *Installer) CheckDeleted() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	names := lists.Filter(slices.Sorted(maps.Keys(i.deleted)), func(name string) bool { return i.deleted[name] })
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("deleted while this program runs: CustomResourceDefinition %s; restart the program to create it again",
		strings.Join(names, ", "))
}

// Watch watches the installed CRDs until the returned function is called: all of them, or each
// by its name, since a Go program may be allowed to watch only its own CRDs.
func (i *Installer) Watch(ctx context.Context, store *cache.Cache, byName bool) (closeAll func()) {
	installed := map[string]Manifest{}
	for _, d := range i.options.Install {
		installed[d.Name()] = d
	}
	names := slices.Sorted(maps.Keys(installed))
	if !byName && len(names) > 0 {
		names = []string{""}
	}
	var views []*cache.View
	for _, name := range names {
		views = append(views, store.Watch(cache.Selection{Resource: Resource, Name: name, Metadata: true}, func(e cache.Event) {
			if d, ours := installed[e.Object().Name()]; ours {
				i.observe(ctx, d, e.New != nil)
			}
		}))
	}
	return func() {
		for _, view := range views {
			view.Close()
		}
	}
}

// observe handles the creation or deletion of a CRD.
func (i *Installer) observe(ctx context.Context, d Manifest, exists bool) {
	o := &i.options
	i.mu.Lock()
	changed := i.deleted[d.Name()] == exists
	i.deleted[d.Name()] = !exists
	i.mu.Unlock()
	switch {
	case !changed || ctx.Err() != nil:
	case exists:
		o.Log.Info("CRD exists again", "crd", d.Name())
	default:
		o.Log.Error("CRD was deleted; restart this program to create it again", "crd", d.Name())
		o.EventAt(hook.ObjectEvent{
			APIVersion: Resource.APIVersion(), Kind: Resource.Kind, Name: d.Name(),
			Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonCRDDeleted,
				Message: fmt.Sprintf("deleted while %s runs; restart %[1]s to create it again", o.Program)},
		})
	}
}
