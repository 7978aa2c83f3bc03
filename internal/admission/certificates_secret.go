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

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// secret is the Secret that stores the keyring of all replicas.
type secret struct {
	SecretRef

	store  *cache.Cache
	client rest.Interface

	// started is closed when the watch has started.
	started chan struct{}
	start   func()
	mu      sync.Mutex
	view    *cache.View
}

func newSecret(o CertificateManagerOptions) *secret {
	opened := make(chan struct{})
	return &secret{
		SecretRef: o.Secret, store: o.Store, client: o.Client,
		started: opened, start: sync.OnceFunc(func() { close(opened) }),
	}
}

var secrets = object.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}

// managedByLabel labels what Setpoint keeps, by any of its processes.
const (
	// managedByLabel marks objects that Setpoint stores.
	managedByLabel = "app.kubernetes.io/managed-by"
	managerName    = "setpoint"
)

// watch watches the Secret until ctx ends.
func (s *secret) watch(ctx context.Context, k *CertificateManager) error {
	s.mu.Lock()
	view := s.store.Watch(cache.Selection{Resource: secrets, Namespace: s.Namespace, Name: s.Name}, func(cache.Event) { k.reload() })
	s.view = view
	s.mu.Unlock()
	defer view.Close()
	s.start()
	select {
	case <-view.ReadyOrFailed():
	case <-ctx.Done():
		return nil
	}
	if err := view.Err(); err != nil && !view.Synced() {
		k.setError(fmt.Errorf("read %s: %w", s, err))
	}
	<-ctx.Done()
	return nil
}

func (s *secret) currentView() *cache.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// waitForSync waits until the watch is synced; false if ctx ended first.
func (s *secret) waitForSync(ctx context.Context) bool {
	select {
	case <-s.started:
	case <-ctx.Done():
		return false
	}
	select {
	case <-s.currentView().Ready():
		return true
	case <-ctx.Done():
		return false
	}
}

// loadedSecret is the state of the Secret.
type loadedSecret struct {
	// keyring is nil if there is none to keep.
	keyring *keyring
	// object is nil if there is no Secret.
	object *object.Object
	// writeReason is why the Secret must be written whatever the plan, or "".
	writeReason string
	// force requests new keys, because a user deleted the Secret.
	force bool
}

// load reads the Secret. If it is empty or invalid, the keyring in memory is used,
// because clients trust it. A user who deletes the Secret requests new keys.
func (s *secret) load(reservation *keyring) (loadedSecret, error) {
	stored := s.currentView().Get(s.Namespace, s.Name)
	if stored == nil {
		return loadedSecret{keyring: reservation, writeReason: s.String() + " was missing", force: reservation != nil}, nil
	}
	ours := stored.Labels().Get(managedByLabel) == managerName
	packed, err := secretDataOf(stored)
	if err != nil {
		return loadedSecret{}, fmt.Errorf("read %s: %w", s, err)
	}
	if len(packed) > 0 {
		current, err := packed.decode()
		switch {
		case err == nil && ours:
			return loadedSecret{keyring: current, object: stored}, nil
		case err == nil:
			return loadedSecret{keyring: current, object: stored, writeReason: s.String() + " had no label"}, nil
		case ours:
			return loadedSecret{keyring: reservation, object: stored, writeReason: fmt.Sprintf("%s was invalid: %v", s, err)}, nil
		}
		return loadedSecret{}, fmt.Errorf("%s does not belong to Setpoint, because it has no label %s=%s: use another name or delete it", s, managedByLabel, managerName)
	}
	return loadedSecret{keyring: reservation, object: stored, writeReason: s.String() + " was empty"}, nil
}

// secretDataOf returns the values that are not empty.
func secretDataOf(o *object.Object) (secretData, error) {
	packed := secretData{}
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

// write stores the data, if the Secret has not changed since it was read.
func (s *secret) write(ctx context.Context, found *object.Object, packed secretData) error {
	request := s.client.Post().AbsPath(secrets.Path(s.Namespace, ""))
	body, err := s.newSecretJSON(packed)
	if found != nil {
		request = s.client.Put().AbsPath(secrets.Path(s.Namespace, s.Name))
		body, err = updatedSecret(found, packed)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", s, err)
	}
	stored, err := send(ctx, request, body)
	if err != nil {
		return fmt.Errorf("write %s: %w", s, err)
	}
	s.currentView().ObserveWrite(stored)
	return nil
}

func (s *secret) newSecretJSON(packed secretData) ([]byte, error) {
	return json.Marshal(corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name, Labels: map[string]string{managedByLabel: managerName}},
		Type:       corev1.SecretTypeTLS, Data: packed,
	})
}

// updatedSecret keeps what other clients added, such as annotations.
func updatedSecret(found *object.Object, packed secretData) ([]byte, error) {
	data, err := json.Marshal(packed)
	if err != nil {
		return nil, err
	}
	o, err := found.Edited(
		object.Edit{Path: []string{"data"}, Value: data},
		object.Edit{Path: []string{"metadata", "labels", managedByLabel}, Value: []byte(`"` + managerName + `"`)},
	)
	if err != nil {
		return nil, err
	}
	return o.JSON(), nil
}

// send writes an object and decodes the response. Errors are those of the API server.
func send(ctx context.Context, request *rest.Request, body []byte) (*object.Object, error) {
	return parseResult(request.Param("fieldManager", managerName).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json").Body(body).Do(ctx))
}

// parseResult decodes the object of a response.
func parseResult(result rest.Result) (*object.Object, error) {
	if err := result.Error(); err != nil {
		return nil, err
	}
	raw, err := result.Raw()
	if err != nil {
		return nil, err
	}
	return object.Parse(raw)
}

// ignoreConflict drops the error of a write that another client's write overtook.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
