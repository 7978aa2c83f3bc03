package rbac

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/identity"
)

// maxManifest limits the roles in a message: a user has to read it, and a condition has 32 KiB.
const maxManifest = 8 << 10

// MissingError says which permissions are missing.
type MissingError struct {
	message string
	// Namespaces are those in which they are missing; none if one is missing in all namespaces or
	// for a cluster-scoped kind.
	Namespaces []string
	missing    Permissions
}

func (e *MissingError) Error() string { return e.message }

// Persists reports whether all of them are still missing, those of an identity aside. It asks for
// these only.
func (e *MissingError) Persists(ctx context.Context, client rest.Interface) bool {
	still, err := Missing(ctx, client, e.missing.Of(Own))
	return err == nil && len(still) == len(e.missing)
}

// namespaces returns the namespaces of permissions; none if one has no namespace.
func (p Permissions) namespaces() []string {
	var all []string
	for _, n := range p {
		if n.namespace == "" {
			return nil
		}
		all = append(all, n.namespace)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// refused is a controller without some of its permissions.
type refused struct {
	controller string
	// command prints all roles of the controller.
	command string
	// user is Setpoint's own; "" if unknown.
	user    string
	account identity.Account
}

// err names missing permissions in its first line. The roles that grant them follow, so that
// all but the first line can be piped to kubectl.
func (l *refused) err(missing Permissions) error {
	var who []string
	if own := missing.Of(Own); len(own) > 0 {
		as := ""
		if l.user != "" {
			as = " as " + l.user
		}
		who = append(who, "Setpoint"+as+" may not "+own.Summary())
	}
	if others := missing.Of(Identity); len(others) > 0 {
		who = append(who, fmt.Sprintf("the ServiceAccount %s may not %s", l.account, others.Summary()))
	}
	text, err := l.roles(missing)
	if err != nil {
		return err
	}
	command := "kubectl apply -f -"
	if len(text) > maxManifest {
		command, text = l.command+" | kubectl apply -f -", nil
	}
	message := fmt.Sprintf("%s; the controller starts when this is granted\n# To grant it: %s\n%s", strings.Join(who, "; "), command, text)
	return &MissingError{strings.TrimSpace(message), missing.namespaces(), missing}
}

// roles returns the roles that grant what is missing.
func (l *refused) roles(missing Permissions) ([]byte, error) {
	_, name, found := strings.Cut(l.controller, "/")
	if !found {
		name = l.controller
	}
	// The controller and what it needs are in the message; comments would repeat them.
	missing = missing.grants()
	own := Roles("setpoint-grant-"+name, subjectOf(l.user), missing.Of(Own).RulesByNamespace())
	others := Roles("setpoint-serviceaccount-"+name, subjectOfAccount(l.account), missing.Of(Identity).RulesByNamespace())
	return YAML(slices.Concat(own, others))
}

// maxSummary is the number of resources that the first line names.
const maxSummary = 50

// Summary lists the verbs by resource, such as "get, list pods.v1 in shop".
func (p Permissions) Summary() string {
	targets := map[string]Permissions{}
	for _, n := range p {
		targets[n.target()] = append(targets[n.target()], n)
	}
	var parts []string
	for target, all := range targets {
		parts = append(parts, strings.Join(all.verbs(), ", ")+" "+target)
	}
	slices.Sort(parts)
	if more := len(parts) - maxSummary; more > 0 {
		parts = append(parts[:maxSummary], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// accountPrefix is how the API server names the users of ServiceAccounts.
const accountPrefix = "system:serviceaccount:"

// subjectOf returns the subject of a role binding, with a placeholder for an unknown user.
func subjectOf(user string) rbac.Subject {
	if account, ok := strings.CutPrefix(user, accountPrefix); ok {
		namespace, name, _ := strings.Cut(account, ":")
		return rbac.Subject{Kind: rbac.ServiceAccountKind, Name: name, Namespace: namespace}
	}
	return rbac.Subject{Kind: rbac.UserKind, APIGroup: rbac.GroupName, Name: cmp.Or(user, "USER")}
}
