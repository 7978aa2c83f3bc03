// Package inventory records which objects the runs of `setpoint dev --context` have created in a cluster:
// in a ConfigMap of that cluster, so that they can be removed after a crash and from another machine.
//
// An object is listed before it is created. It belongs to the run if it has the run's label, and the UID that
// was recorded after its creation; without one, because the process was killed in between, the label decides.
//
// Package manifest creates and deletes objects by it; package dev shows and cleans it up.
package inventory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// namePrefix is that of the ConfigMaps and of the Leases of runs.
const namePrefix = "setpoint-dev-"

// kindLabel selects the ConfigMaps of all runs.
const kindLabel = "setpoint.dev/dev-inventory"

// Keys of the ConfigMap.
const (
	runKey     = "run"
	objectsKey = "objects"
)

// Run says whose objects they are.
type Run struct {
	// Name is derived from the files. Owner is USER@HOST, Dir the first folder or file there.
	Name  string `json:"-"`
	Owner string `json:"owner"`
	Dir   string `json:"dir"`
	// Namespaces are all that its controllers were ever limited to.
	Namespaces []string `json:"namespaces"`
}

// Entry is an object that was, or is going to be, created.
type Entry struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// UID is empty until the creation is recorded.
	UID types.UID `json:"uid,omitempty"`
	// Source is the project whose files have the object; "" for what Setpoint needs itself.
	Source string `json:"source,omitempty"`
}

// String returns such as "Pod shop/web".
func (e Entry) String() string {
	return object.Ref{Kind: object.Kind{Kind: e.Kind}, Namespace: e.Namespace, Name: e.Name}.String()
}

// sameObject reports whether two entries name one object.
func (e Entry) sameObject(other Entry) bool {
	return e.APIVersion == other.APIVersion && e.Kind == other.Kind && e.Namespace == other.Namespace && e.Name == other.Name
}

// Inventory is the stored list of one run. Its methods are not safe for concurrent use.
type Inventory struct {
	Run
	Entries []Entry

	client typed.ConfigMapInterface
	stored *corev1.ConfigMap
	// changed is set while Entries differ from what is stored.
	changed bool
}

// ErrNone means that there is no inventory.
var ErrNone = errors.New("no inventory of a run")

// ErrOtherOwner means that the inventory is of another user, machine or folder.
var ErrOtherOwner = errors.New("another run has that name")

// Find returns the inventory of a run by its name, in the first of the namespaces that has one. Where the user
// may not read, there is none: without that right no run could have started there.
func Find(ctx context.Context, config *rest.Config, name string, namespaces []string) (*Inventory, error) {
	client, err := typed.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	for _, namespace := range namespaces {
		stored, err := client.ConfigMaps(namespace).Get(ctx, namePrefix+name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read the inventory %s/%s: %w", namespace, namePrefix+name, err)
		}
		return open(client.ConfigMaps(namespace), stored)
	}
	return nil, fmt.Errorf("%s: %w", name, ErrNone)
}

// List returns all inventories, of all namespaces if the user may list these, else of some.
func List(ctx context.Context, config *rest.Config, namespaces []string) ([]*Inventory, error) {
	client, err := typed.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	selector := metav1.ListOptions{LabelSelector: kindLabel}
	all, err := client.ConfigMaps(metav1.NamespaceAll).List(ctx, selector)
	if apierrors.IsForbidden(err) {
		all, err = &corev1.ConfigMapList{}, nil
		for _, namespace := range namespaces {
			some, inOne := client.ConfigMaps(namespace).List(ctx, selector)
			if err = errors.Join(err, inOne); inOne == nil {
				all.Items = append(all.Items, some.Items...)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the inventories: %w", err)
	}
	var found []*Inventory
	for i := range all.Items {
		one, err := open(client.ConfigMaps(all.Items[i].Namespace), &all.Items[i])
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, nil
}

// Create stores the inventory of a new run in the first of the namespaces that exists, or may be written to.
func Create(ctx context.Context, config *rest.Config, run Run, namespaces []string) (*Inventory, error) {
	client, err := typed.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	i := &Inventory{Run: run}
	data, err := i.data()
	if err != nil {
		return nil, err
	}
	var problems []error
	for _, namespace := range namespaces {
		i.client = client.ConfigMaps(namespace)
		i.stored, err = i.client.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: namePrefix + run.Name, Labels: map[string]string{kindLabel: "true"}}, Data: data,
		}, metav1.CreateOptions{})
		if err == nil {
			return i, nil
		}
		if apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("another session of this run has started at the same time: %w", err)
		}
		problems = append(problems, err)
	}
	return nil, fmt.Errorf("store the inventory of what is going to be created: %w", errors.Join(problems...))
}

func open(client typed.ConfigMapInterface, stored *corev1.ConfigMap) (*Inventory, error) {
	i := &Inventory{client: client, stored: stored}
	err := json.Unmarshal([]byte(stored.Data[runKey]), &i.Run)
	if err == nil {
		err = json.Unmarshal([]byte(stored.Data[objectsKey]), &i.Entries)
	}
	if err != nil {
		return nil, fmt.Errorf("read the inventory %s: %w", i, err)
	}
	i.Name = stored.Name[min(len(namePrefix), len(stored.Name)):]
	return i, nil
}

// ID is the value of the run's label.
func (i *Inventory) ID() string { return string(i.stored.UID) }

// Lease is that which a process of the run holds. It has the name and the namespace of the inventory.
func (i *Inventory) Lease() types.NamespacedName {
	return types.NamespacedName{Namespace: i.stored.Namespace, Name: i.stored.Name}
}

// String returns such as "ConfigMap web/setpoint-dev-tenant".
func (i *Inventory) String() string {
	return "ConfigMap " + i.Lease().String()
}

// CheckOwner returns ErrOtherOwner if the inventory is of another run with that name.
func (i *Inventory) CheckOwner(run Run) error {
	if i.Owner == run.Owner && i.Dir == run.Dir {
		return nil
	}
	return fmt.Errorf("%w: %s in %s on this cluster (%s)", ErrOtherOwner, i.Owner, i.Dir, i)
}

// Limit adds namespaces of controllers.
func (i *Inventory) Limit(ctx context.Context, namespaces []string) error {
	before := len(i.Namespaces)
	i.Namespaces = lists.Union(i.Namespaces, namespaces)
	i.changed = i.changed || len(i.Namespaces) > before
	return i.Store(ctx)
}

// Plan lists objects that are going to be created, and stores the list.
func (i *Inventory) Plan(ctx context.Context, entries []Entry) error {
	for _, e := range entries {
		i.Forget(e) // It was deleted, or never created.
		i.Entries, i.changed = append(i.Entries, e), true
	}
	return i.Store(ctx)
}

// Created sets the UID of an object. It is stored by the next Store.
func (i *Inventory) Created(e Entry, uid types.UID) {
	if at := slices.IndexFunc(i.Entries, e.sameObject); at >= 0 {
		i.Entries[at].UID, i.changed = uid, true
	}
}

// Forget removes an object from the list. It is stored by the next Store.
func (i *Inventory) Forget(e Entry) {
	before := len(i.Entries)
	i.Entries = slices.DeleteFunc(i.Entries, e.sameObject)
	i.changed = i.changed || len(i.Entries) < before
}

// Owns reports whether a stored object is one that the run has created.
func (i *Inventory) Owns(e Entry, o metav1.Object) bool {
	at := slices.IndexFunc(i.Entries, e.sameObject)
	return at >= 0 && o.GetLabels()[setpoint.LabelDevRun] == i.ID() && cmp.Or(i.Entries[at].UID, o.GetUID()) == o.GetUID()
}

// Store stores changes. Only one process writes the list, the one with the Lease; others may label the
// ConfigMap, which makes it a conflict.
func (i *Inventory) Store(ctx context.Context) error {
	if !i.changed {
		return nil
	}
	data, err := i.data()
	if err != nil {
		return err
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		next := i.stored.DeepCopy()
		next.Data = data
		stored, err := i.client.Update(ctx, next, metav1.UpdateOptions{})
		if apierrors.IsConflict(err) {
			if now, getErr := i.client.Get(ctx, i.stored.Name, metav1.GetOptions{}); getErr == nil && now.UID == i.stored.UID {
				i.stored = now
			}
		}
		if err == nil {
			i.stored, i.changed = stored, false
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("store the inventory %s: %w", i, err)
	}
	return nil
}

// Delete deletes the inventory.
func (i *Inventory) Delete(ctx context.Context) error {
	uid := i.stored.UID
	err := i.client.Delete(ctx, i.stored.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

func (i *Inventory) data() (map[string]string, error) {
	run, err := json.Marshal(i.Run)
	if err != nil {
		return nil, err
	}
	objects, err := json.Marshal(append([]Entry{}, i.Entries...))
	return map[string]string{runKey: string(run), objectsKey: string(objects)}, err
}

// NameOf returns the name of the run of a folder or file.
func NameOf(path string) string {
	base := filepath.Base(path)
	base = strings.ToLower(strings.TrimSuffix(base, filepath.Ext(base)))
	name := strings.Trim(otherCharacters.ReplaceAllString(base, "-"), "-")
	return cmp.Or(strings.Trim(name[:min(len(name), maxName)], "-"), "run")
}

// otherCharacters are those that the name of an object does not have.
var otherCharacters = regexp.MustCompile("[^a-z0-9]")

// maxName leaves room in the name of a Lease.
const maxName = 40
