package manager

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/admission/certs"
	"github.com/setpoint-dev/setpoint/internal/admission/register"
)

// Uninstall removes the webhook configurations of a Manager with these options, and the
// Secret of their certificates. No such Manager may run any more: it would create them again.
func Uninstall(ctx context.Context, o Options) error {
	o = o.withDefaults()
	client, err := newClient(o)
	if err != nil {
		return fmt.Errorf("create a client for the cluster: %w", err)
	}
	reach := o.reach()
	err = register.Unregister(ctx, client, reach.RegistrationGroup())
	if secret := reach.CertificateSecret(); secret != (types.NamespacedName{}) {
		err = errors.Join(err, certs.DeleteSecret(ctx, client, secret))
	}
	return err
}
