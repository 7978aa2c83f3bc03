package compile

import (
	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// AccountOf returns as which ServiceAccount a controller acts.
func (env *Environment) AccountOf(declared api.Identity) identity.Account {
	switch {
	case env.OwnRights:
		return identity.Account{}
	case declared.ServiceAccountName == "":
		return env.DefaultAccount
	}
	return identity.Account{Namespace: declared.ServiceAccountNamespace, Name: declared.ServiceAccountName}
}

// checkAccount returns an error if objects of a kind have no namespace to find the ServiceAccount in.
func checkAccount(account identity.Account, of object.Resource) error {
	if account.PerNamespace() && !of.Namespaced {
		return invalid("spec.serviceAccountNamespace: required: %s are cluster-scoped, so the ServiceAccount %s cannot be in their "+
			"namespace", of, account.Name)
	}
	return nil
}
