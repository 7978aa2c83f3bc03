package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// DeleteSecret deletes the Secret of a program that no longer runs. It refuses a Secret
// that is not Setpoint's.
func DeleteSecret(ctx context.Context, client rest.Interface, secret SecretRef) error {
	result := client.Get().AbsPath(secrets.Path(secret.Namespace, secret.Name)).SetHeader("Accept", "application/json").Do(ctx)
	err := result.Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = deleteSecret(ctx, client, result)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", secret, err)
	}
	return nil
}

func deleteSecret(ctx context.Context, client rest.Interface, found rest.Result) error {
	raw, err := found.Raw()
	if err != nil {
		return err
	}
	o, err := object.Parse(raw)
	if err != nil {
		return err
	}
	if o.Labels().Get(managedByLabel) != managerName {
		return fmt.Errorf("it does not belong to Setpoint, because it has no label %s=%s", managedByLabel, managerName)
	}
	return remove(ctx, client, secrets, o)
}
