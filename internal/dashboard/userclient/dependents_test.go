package userclient_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// owned returns the metadata of an object with owners.
func owned(name string, owners ...string) string {
	refs := lists.Map(owners, func(owner string) string { return fmt.Sprintf(`{"uid":%q}`, owner) })
	return fmt.Sprintf(`{"metadata":{"name":%[1]q,"uid":%[1]q,"namespace":"shop","ownerReferences":[%[2]s]}}`, name, strings.Join(refs, ","))
}

func TestListLimit(t *testing.T) {
	api := newFakeAPI(t)
	page := strings.Repeat(owned("a")+",", 499) + owned("a")
	api.update(func() { api.responses["/api/v1/namespaces"] = `{"metadata":{"continue":"x"},"items":[` + page + `]}` })
	c := as(t, connect(t, &rest.Config{Host: api.URL}), userclient.User{OwnCredentials: true})
	names, err := c.Namespaces(t.Context())
	if err == nil || !strings.Contains(err.Error(), "more than 20000") || len(names) != 20000 {
		t.Errorf("%d are listed: %v", len(names), err)
	}
}
