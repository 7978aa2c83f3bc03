package rbac

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Check asks the API server whether a controller has all permissions that it cannot run
// without. The error is a refusal that names what is missing, with roles that grant it.
//
// The identity in the namespace of each parent is not checked: the namespaces are not known.
func (o *Process) Check(ctx context.Context, client rest.Interface, kind object.Resource, c *compile.Compiled, identity types.NamespacedName) error {
	all := o.ForController(kind, c, identity)
	own, err := missingOwn(ctx, client, all, identity)
	if err != nil {
		return err
	}
	var others Permissions
	if identity.Namespace != "" && !own.has("create", on(subjectAccessReviews, "create")[0]) {
		if others, err = missingOf(ctx, client, identity, all.Of(Identity)); err != nil {
			return err
		}
	}
	if len(own)+len(others) == 0 {
		return nil
	}
	command := "PROGRAM rbac"
	if kind != (object.Resource{}) {
		command = "setpoint rbac " + c.Name()
	}
	of := refused{controller: c.Name(), command: command, user: username(ctx, client), identity: identity}
	return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: of.err(slices.Concat(own, others))}
}

// missingOwn returns the permissions that the process lacks, those to act as the identity
// included. It may act by constrained impersonation or by the older kind.
func missingOwn(ctx context.Context, client rest.Interface, all Permissions, identity types.NamespacedName) (Permissions, error) {
	own := slices.Concat(all.Of(Own), all.Impersonation(identity, false))
	missing, err := Missing(ctx, client, own)
	if err != nil || !missing.contain("impersonate") {
		return missing, err
	}
	constrained, err := ServesConstrainedImpersonation(ctx, client)
	if err != nil || !constrained {
		return missing, err
	}
	return Missing(ctx, client, slices.Concat(all.Of(Own), all.Impersonation(identity, true)))
}

func (p Permissions) contain(verb string) bool {
	return slices.ContainsFunc(p, func(n permission) bool { return n.verb == verb })
}

// constrainedSince is the minor version in which constrained impersonation is on by default.
const constrainedSince = 36

// ServesConstrainedImpersonation reports whether the API server is new enough for it. Older
// ones, and those with the feature turned off, need the verb impersonate.
func ServesConstrainedImpersonation(ctx context.Context, client rest.Interface) (bool, error) {
	var served version.Info
	text, err := client.Get().AbsPath("/version").Do(ctx).Raw()
	if err != nil {
		return false, err
	}
	if err := json.Unmarshal(text, &served); err != nil {
		return false, err
	}
	// Providers append to the number: "36+".
	minor, err := strconv.Atoi(strings.TrimRight(served.Minor, "+"))
	return err == nil && (served.Major != "1" || minor >= constrainedSince), nil
}
