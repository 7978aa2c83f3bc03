package manager

import (
	"context"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/admission"
)

// Uninstall removes what a Host with these options leaves behind of being asked before
// objects are stored: its webhook configurations, and the Secret of its certificates.
// The Host is not to run any more: it would make them anew.
func Uninstall(ctx context.Context, o Options) error {
	o = o.withDefaults()
	client, err := newClient(o)
	if err != nil {
		return fmt.Errorf("make a client for the cluster: %w", err)
	}
	err = admission.Unregister(ctx, client, o.registrationGroup())
	if secret := o.certificateSecret(); secret != (admission.SecretRef{}) {
		err = errors.Join(err, admission.DeleteSecret(ctx, client, secret))
	}
	return err
}
