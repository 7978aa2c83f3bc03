package rbac

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
)

// Check asks the API server whether a controller has all permissions that it cannot run
// without. The error is a refusal that names what is missing, with roles that grant it.
//
// The identity in the namespace of each parent is not checked: the namespaces are not known.
func (o *Process) Check(ctx context.Context, client rest.Interface, kind object.Resource, c *compile.Compiled) error {
	all := o.ForController(kind, c)
	own, err := missingOwn(ctx, client, all, c.Account)
	if err != nil {
		return err
	}
	var others Permissions
	if c.Account.Namespace != "" && !own.has("create", on(subjectAccessReviews, "create")[0]) {
		if others, err = missingOf(ctx, client, c.Account, all.Of(Identity)); err != nil {
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
	of := refused{controller: c.Name(), command: command, user: Username(ctx, client), account: c.Account}
	return &compile.Refusal{Reason: setpoint.ReasonForbidden, Err: of.err(slices.Concat(own, others))}
}

// missingOwn returns the permissions that the process lacks, those to act as the identity
// included. It may act by constrained impersonation or by the older kind.
func missingOwn(ctx context.Context, client rest.Interface, all Permissions, account identity.Account) (Permissions, error) {
	own := slices.Concat(all.Of(Own), all.Impersonation(account, false))
	missing, err := Missing(ctx, client, own)
	if err != nil || !slices.ContainsFunc(missing, func(n permission) bool { return n.verb == "impersonate" }) {
		return missing, err
	}
	constrained, err := ServesConstrainedImpersonation(ctx, client)
	if err != nil || !constrained {
		return missing, err
	}
	return Missing(ctx, client, slices.Concat(all.Of(Own), all.Impersonation(account, true)))
}

// constrainedSince is the version in which constrained impersonation is on by default.
const constrainedSince = "1.36"

// ServesConstrainedImpersonation reports whether the API server is new enough for it. Older
// ones, and those with the feature turned off, need the verb impersonate.
func ServesConstrainedImpersonation(ctx context.Context, client rest.Interface) (bool, error) {
	var served apiversion.Info
	text, err := request.Do(ctx, client.Get().AbsPath("/version"))
	if err == nil {
		err = json.Unmarshal(text, &served)
	}
	if err != nil {
		return false, fmt.Errorf("read the version of the API server: %w", err)
	}
	found, err := version.ParseGeneric(served.GitVersion)
	return err == nil && found.AtLeast(version.MustParseGeneric(constrainedSince)), nil
}
