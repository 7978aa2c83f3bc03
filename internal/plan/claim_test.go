package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const ours = `{"apiVersion":"example.org/v1","kind":"Shop","name":"books","uid":"parent-uid","controller":true,"blockOwnerDeletion":true}`

// claimed is an object with the label app=x and this metadata.
func claimed(t *testing.T, name, metadata string) *object.Object {
	t.Helper()
	return parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+name+`","resourceVersion":"5",`+metadata+`}}`)
}

func TestClaim(t *testing.T) {
	const match, miss, going = `"labels":{"app":"x"}`, `"labels":{"app":"z"}`, `"deletionTimestamp":"2026-01-01T00:00:00Z"`
	owned := []*object.Object{
		claimed(t, "kept", match+`,"ownerReferences":[`+ours+`]`),
		claimed(t, "let-go", miss+`,"ownerReferences":[{"uid":"other"},`+ours+`]`),
		claimed(t, "let-go-alone", miss+`,"ownerReferences":[`+ours+`]`),
		claimed(t, "going", miss+`,`+going+`,"ownerReferences":[`+ours+`]`),
	}
	orphans := []*object.Object{
		claimed(t, "taken", match),
		claimed(t, "taken-beside", match+`,"ownerReferences":[{"uid":"other"},{"uid":"parent-uid"}]`),
		claimed(t, "going-orphan", match+`,`+going),
	}
	for name, c := range map[string]struct{ family, want string }{
		"alive": {"selector: {matchLabels: {app: x}}", `
			child ConfigMap kept
			child ConfigMap going
			release ConfigMap let-go: labels no longer match the parent's selector
			  [{"uid":"other"}]
			release ConfigMap let-go-alone: labels no longer match the parent's selector
			  none
			adopt ConfigMap taken: labels match the parent's selector
			  [` + ours + `]
			adopt ConfigMap taken-beside: labels match the parent's selector
			  [{"uid":"other"},` + ours + `]`},
		"being deleted": {"{selector: {matchLabels: {app: x}}, deleting: true}", `
			child ConfigMap kept
			child ConfigMap let-go
			child ConfigMap let-go-alone
			child ConfigMap going`},
	} {
		t.Run(name, func(t *testing.T) {
			f := plannerOf(t, []byte(c.family))
			claim := must.Get(f.Claim(declared()[0].Resource, owned, orphans)).In(t)
			if diff := cmp.Diff(unindent(c.want), describeClaim(claim)); diff != "" {
				t.Error(diff)
			}
			for _, change := range claim.Changes {
				if change.After.Version() != 5 {
					t.Errorf("%s is not bound to the version it was read at", change)
				}
			}
		})
	}
}

func describeClaim(c Claim) string {
	lines := lists.Map(c.Children, func(child *object.Object) string { return "child " + child.Ref().String() })
	for _, change := range c.Changes {
		owners := string(change.After.Field("metadata", "ownerReferences"))
		if owners == "" {
			owners = "none"
		}
		lines = append(lines, change.String(), "  "+owners)
	}
	return strings.Join(lines, "\n")
}

func unindent(text string) string {
	return strings.TrimSpace(strings.ReplaceAll(text, "\n\t\t\t", "\n"))
}

func TestClaimNamesOwnersItCannotRead(t *testing.T) {
	f := plannerOf(t, nil)
	corrupt := claimed(t, "a", `"ownerReferences":[null]`)
	claim, err := f.Claim(declared()[0].Resource, nil, []*object.Object{corrupt})
	if err != nil || len(claim.Changes) != 1 {
		t.Errorf("a null owner is in the way: %v, %v", claim, err)
	}
}
