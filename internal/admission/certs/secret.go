package certs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

func secretName(name types.NamespacedName) string { return "Secret " + name.String() }

// Permissions are those to store certificates in a Secret, or to read provided ones; the zero
// name is for certificates in memory. There is no create, which could not be limited to one name: the
// manifests of a program include the Secret, empty.
func Permissions(secret types.NamespacedName, provided bool) []admission.Permission {
	if secret == (types.NamespacedName{}) {
		return nil
	}
	verbs := []string{"get", "list", "watch"}
	if !provided {
		verbs = append(verbs, "update")
	}
	return []admission.Permission{{Resource: object.Secrets, Namespace: secret.Namespace, Name: secret.Name, Verbs: verbs}}
}

// watchSecret follows the Secret until ctx ends.
func (k *Manager) watchSecret(ctx context.Context) {
	defer k.view.Close()
	for listed := k.view.ReadyOrFailed(); ; {
		select {
		case <-listed:
			if err := k.view.Err(); err != nil && !k.view.Synced() {
				k.setError(fmt.Errorf("read %s: %w", secretName(k.options.Secret), err))
			}
			listed = nil
		case <-k.stored:
			k.reload()
		case <-ctx.Done():
			return
		}
	}
}

// waitForSync waits until the watch is synced; false if ctx ended first.
func (k *Manager) waitForSync(ctx context.Context) bool {
	select {
	case <-k.view.Ready():
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

// loadSecret reads the Secret. If it is empty or invalid, the keyring in memory is used,
// because clients trust it. A user who deletes the Secret requests new keys.
func (k *Manager) loadSecret(reservation *keyring) (loadedSecret, error) {
	stored, name := k.view.Get(k.options.Secret.Namespace, k.options.Secret.Name), secretName(k.options.Secret)
	if stored == nil {
		return loadedSecret{keyring: reservation, writeReason: name + " was missing", force: reservation != nil}, nil
	}
	packed, err := secretDataOf(stored)
	if err != nil {
		return loadedSecret{}, fmt.Errorf("read %s: %w", name, err)
	}
	found := loadedSecret{keyring: reservation, object: stored}
	if len(packed) == 0 {
		found.writeReason = name + " was empty"
		return found, nil
	}
	current, err := packed.decode()
	switch labelErr := checkLabel(stored); {
	case err == nil:
		found.keyring = current
		if labelErr != nil {
			found.writeReason = name + " had no label"
		}
	case labelErr == nil:
		found.writeReason = fmt.Sprintf("%s was invalid: %v", name, err)
	default:
		return loadedSecret{}, fmt.Errorf("%s %w: use another name or delete it", name, labelErr)
	}
	return found, nil
}

// secretLabel marks a Secret as Setpoint's. The label managed-by does not: Helm sets it to its
// own name on all objects of a chart. Secrets of older versions have only that one.
const secretLabel = "setpoint.dev/webhook-certificates" //nolint:gosec // a label is no credential

// checkLabel returns why a Secret is not Setpoint's.
func checkLabel(o *object.Object) error {
	if o.Labels().Has(secretLabel) || o.Labels().Get(admission.ManagedByLabel) == admission.ManagerName {
		return nil
	}
	return fmt.Errorf("does not belong to Setpoint, because it has no label %s", secretLabel)
}

// NewSecret returns the Secret without certificates, to be created before a program runs.
func NewSecret(name types.NamespacedName) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name, Labels: map[string]string{
			admission.ManagedByLabel: admission.ManagerName, secretLabel: "true",
		}},
		Type: corev1.SecretTypeOpaque,
	}
}

// secretDataOf returns the values that are not empty.
func secretDataOf(o *object.Object) (secretData, error) {
	packed := secretData{}
	if data := o.Field("data"); data != nil {
		if err := json.Unmarshal(data, &packed); err != nil {
			return nil, err
		}
	}
	maps.DeleteFunc(packed, func(_ string, value []byte) bool { return len(value) == 0 })
	return packed, nil
}

// writeSecret stores the data, if the Secret has not changed since it was read.
func (k *Manager) writeSecret(ctx context.Context, found *object.Object, packed secretData) error {
	name, client := k.options.Secret, k.options.Client
	o := NewSecret(name)
	o.Type = corev1.SecretTypeTLS
	write := client.Post().AbsPath(object.Secrets.Path(name.Namespace, ""))
	if found != nil {
		// What other clients added stays, such as annotations.
		o = &corev1.Secret{}
		if err := json.Unmarshal(found.JSON(), o); err != nil {
			return fmt.Errorf("write %s: %w", secretName(name), err)
		}
		write = client.Put().AbsPath(object.Secrets.Path(name.Namespace, name.Name))
	}
	o.Data = packed
	metav1.SetMetaDataLabel(&o.ObjectMeta, secretLabel, "true")
	stored, err := request.Object(request.DoJSON(ctx, write.Param("fieldManager", admission.ManagerName), o))
	switch {
	case apierrors.IsForbidden(err) && found == nil:
		return fmt.Errorf("create %s (or create it empty: kubectl create secret generic %s -n %s): %w",
			secretName(name), name.Name, name.Namespace, err)
	case err != nil:
		return fmt.Errorf("write %s: %w", secretName(name), err)
	}
	k.view.ObserveWrite(stored)
	return nil
}

// ignoreConflict drops the error of a write that another client's write overtook.
func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// StoredSecret returns the Secret of a program that no longer runs. A Secret that is not
// Setpoint's is an error.
func StoredSecret(ctx context.Context, client rest.Interface, name types.NamespacedName) (*object.Object, error) {
	o, err := request.Object(request.Do(ctx, client.Get().AbsPath(object.Secrets.Path(name.Namespace, name.Name))))
	if err == nil {
		if err = checkLabel(o); err != nil {
			err = fmt.Errorf("it %w", err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("delete %s: %w", secretName(name), err)
	}
	return o, nil
}
