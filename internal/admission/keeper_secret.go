package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// secret is the Secret that keeps a keyring for all replicas.
type secret struct {
	SecretRef

	store  *store.Store
	client rest.Interface

	// opened is closed when it is watched.
	opened chan struct{}
	open   func()
	mu     sync.Mutex
	view   *store.View
}

func newSecret(o KeeperOptions) *secret {
	opened := make(chan struct{})
	return &secret{
		SecretRef: o.Secret, store: o.Store, client: o.Client,
		opened: opened, open: sync.OnceFunc(func() { close(opened) }),
	}
}

var secrets = object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}

// managedBy labels what Setpoint keeps, by any of its processes.
const (
	managedBy = "app.kubernetes.io/managed-by"
	manager   = "setpoint"
)

// follow watches the Secret until ctx ends.
func (s *secret) follow(ctx context.Context, k *Keeper) error {
	s.mu.Lock()
	view := s.store.Watch(store.Selection{Resource: secrets, Namespace: s.Namespace, Name: s.Name}, func(store.Event) { k.reread() })
	s.view = view
	s.mu.Unlock()
	defer view.Close()
	s.open()
	select {
	case <-view.Settled():
	case <-ctx.Done():
		return nil
	}
	if err := view.Err(); err != nil && !view.Synced() {
		k.note(fmt.Errorf("read %s: %w", s, err))
	}
	<-ctx.Done()
	return nil
}

// watched is the view that follows the Secret.
func (s *secret) watched() *store.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// await waits until it is known what the Secret holds, or that there is none;
// false if ctx has ended before.
func (s *secret) await(ctx context.Context) bool {
	select {
	case <-s.opened:
	case <-ctx.Done():
		return false
	}
	select {
	case <-s.watched().Ready():
		return true
	case <-ctx.Done():
		return false
	}
}

// finding is what is kept at some moment.
type finding struct {
	// kept is nil if there is nothing worth keeping.
	kept *keyring
	// stored is the object, nil if there is none.
	stored *object.Object
	// problem is why it must be written whatever the plan; "" if it need not.
	problem string
	// hurry says that somebody wants to be rid of the keys.
	hurry bool
}

// find reads the Secret. Where it holds nothing, or nonsense, it is to be what was
// held in memory: that is what others trust. Somebody who deletes it wants other
// keys, and gets them.
func (s *secret) find(held *keyring) (finding, error) {
	stored := s.watched().Get(s.Namespace, s.Name)
	if stored == nil {
		return finding{kept: held, problem: s.String() + " was not there", hurry: held != nil}, nil
	}
	ours := stored.Labels().Get(managedBy) == manager
	packed, err := contentsOf(stored)
	if err != nil {
		return finding{}, fmt.Errorf("read %s: %w", s, err)
	}
	if len(packed) > 0 {
		kept, err := packed.unpack()
		switch {
		case err == nil && ours:
			return finding{kept: kept, stored: stored}, nil
		case err == nil:
			return finding{kept: kept, stored: stored, problem: s.String() + " had lost its label"}, nil
		case ours:
			return finding{kept: held, stored: stored, problem: fmt.Sprintf("%s was spoiled: %v", s, err)}, nil
		}
		return finding{}, fmt.Errorf("%s is there and not Setpoint's, it lacks the label %s=%s: name another, or delete it", s, managedBy, manager)
	}
	return finding{kept: held, stored: stored, problem: s.String() + " was empty"}, nil
}

// contentsOf are the values that are not empty.
func contentsOf(o *object.Object) (contents, error) {
	packed := contents{}
	if data := o.Field("data"); data != nil {
		if err := json.Unmarshal(data, &packed); err != nil {
			return nil, err
		}
	}
	for name, value := range packed {
		if len(value) == 0 {
			delete(packed, name)
		}
	}
	return packed, nil
}

// write stores the contents, if the Secret is still what was found.
func (s *secret) write(ctx context.Context, found *object.Object, packed contents) error {
	request := s.client.Post().AbsPath(secrets.Path(s.Namespace, ""))
	body, err := s.created(packed)
	if found != nil {
		request = s.client.Put().AbsPath(secrets.Path(s.Namespace, s.Name))
		body, err = updated(found, packed)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s, err)
	}
	stored, err := send(ctx, request, body)
	if err != nil {
		return fmt.Errorf("write %s: %w", s, err)
	}
	s.watched().Wrote(stored)
	return nil
}

func (s *secret) created(packed contents) ([]byte, error) {
	return json.Marshal(corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{managedBy: manager}},
		Type:       corev1.SecretTypeTLS, Data: packed,
	})
}

// updated leaves what others have added, such as annotations.
func updated(found *object.Object, packed contents) ([]byte, error) {
	data, err := json.Marshal(packed)
	if err != nil {
		return nil, err
	}
	o, err := found.Edited(
		object.Edit{Path: []string{"data"}, Value: data},
		object.Edit{Path: []string{"metadata", "labels", managedBy}, Value: []byte(`"` + manager + `"`)},
	)
	if err != nil {
		return nil, err
	}
	return o.JSON(), nil
}

// send writes an object and reads the answer. The error of a refusal has the
// API server's own words.
func send(ctx context.Context, request *rest.Request, body []byte) (*object.Object, error) {
	result := request.Param("fieldManager", manager).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body(body).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	return object.Parse(raw)
}

// unlessRaced leaves out the error of a write that somebody else's has overtaken:
// nothing to report, only to look again.
func unlessRaced(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
