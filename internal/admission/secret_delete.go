package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
)

// DeleteSecret deletes the Secret of a program that no longer runs. It refuses a Secret
// that is not Setpoint's.
func DeleteSecret(ctx context.Context, client rest.Interface, secret SecretRef) error {
	o, err := parseResult(client.Get().AbsPath(secrets.Path(secret.Namespace, secret.Name)).SetHeader("Accept", "application/json").Do(ctx))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil && o.Labels().Get(managedByLabel) != managerName:
		err = fmt.Errorf("it does not belong to Setpoint, because it has no label %s=%s", managedByLabel, managerName)
	case err == nil:
		err = remove(ctx, client, secrets, o)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", secret, err)
	}
	return nil
}
