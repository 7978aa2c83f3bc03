// Package identity knows as which ServiceAccount a controller acts, and asks the API server what that
// ServiceAccount may read.
//
// Writes, and reads from the API server, are made as the ServiceAccount by impersonation, so that the API
// server decides on them. What comes from the shared cache was read with Setpoint's own rights: a Reviewer
// decides on it. Compile reads the accounts from specs, the controllers use both.
package identity

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
)

// Account names the ServiceAccount of a controller. The zero value means Setpoint's own rights.
type Account struct {
	// Namespace is empty for the namespace of each parent or handled object.
	Namespace, Name string
}

// Parse reads NAMESPACE/NAME, or NAME alone for the namespace of each object. The empty text is the zero
// value.
func Parse(text string) (Account, error) {
	if text == "" {
		return Account{}, nil
	}
	namespace, name, both := strings.Cut(text, "/")
	if !both {
		namespace, name = "", text
	}
	if both && namespace == "" {
		return Account{}, fmt.Errorf("%q has an empty namespace; want NAMESPACE/NAME or NAME", text)
	}
	account := Account{Namespace: namespace, Name: name}
	return account, account.check()
}

// check validates the names.
func (a Account) check() error {
	if problems := validation.ValidateServiceAccountName(a.Name, false); len(problems) > 0 {
		return fmt.Errorf("%q is not the name of a ServiceAccount: %s", a.Name, problems[0])
	}
	if a.Namespace == "" {
		return nil
	}
	if problems := validation.ValidateNamespaceName(a.Namespace, false); len(problems) > 0 {
		return fmt.Errorf("%q is not the name of a namespace: %s", a.Namespace, problems[0])
	}
	return nil
}

// IsZero reports whether the controller acts with Setpoint's own rights.
func (a Account) IsZero() bool { return a == Account{} }

// PerNamespace reports whether each namespace has a ServiceAccount of its own.
func (a Account) PerNamespace() bool { return a.Name != "" && a.Namespace == "" }

// In returns the ServiceAccount for an object in a namespace.
func (a Account) In(namespace string) Account {
	if a.PerNamespace() {
		a.Namespace = namespace
	}
	return a
}

// userPrefix is how the API server names the users of ServiceAccounts.
const userPrefix = "system:serviceaccount:"

// UserFor returns the user for an object in a namespace; "" for Setpoint itself.
func (a Account) UserFor(namespace string) string {
	if a.IsZero() {
		return ""
	}
	a = a.In(namespace)
	return userPrefix + a.Namespace + ":" + a.Name
}

// ofUser returns the ServiceAccount of a user.
func ofUser(user string) Account {
	namespace, name, _ := strings.Cut(strings.TrimPrefix(user, userPrefix), ":")
	return Account{Namespace: namespace, Name: name}
}

// String returns the form that Parse reads.
func (a Account) String() string {
	if a.Namespace == "" {
		return a.Name
	}
	return a.Namespace + "/" + a.Name
}
