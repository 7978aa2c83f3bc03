package browser

import (
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
)

// allowedReviews is more than a page of reviews.
const allowedReviews = 120

// TestReviews finds the denial among many reviews, opens it, and goes to its object and back.
func TestReviews(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace()
	url := hook(t, func(r hookRequest) (int, any) {
		switch {
		case r.Webhook == "owner":
			return http.StatusOK, map[string]any{"allowed": true, "patch": map[string]any{"metadata": map[string]any{"labels": map[string]any{"owner": "none"}}}}
		case strings.HasPrefix(r.Name, "bad"):
			return http.StatusOK, map[string]any{"allowed": false, "message": "names must not begin with bad: choose another one"}
		}
		return http.StatusOK, map[string]any{"allowed": true}
	})
	controller := "/controllers/setpoint/admissioncontroller.setpoint.dev~" + ns
	c.apply(fmt.Sprintf(reviewManifest, ns, url))
	t.Cleanup(func() { _, _ = c.try("", "delete", "admissioncontroller.setpoint.dev", ns, "--wait=false") })
	p := newPage(t, sharedUI()) // It is closed before the controller that it shows is deleted.
	p.open("/")
	p.follow(controller)
	p.at(controller)
	p.see("No reviews yet", "before it stores objects that its rules select", "Ready")
	p.audit()
	c.kubectl("wait", "--for=condition=Ready", "admissioncontroller.setpoint.dev/"+ns, "--timeout="+waitTimeout.String())

	// Reviews appear without a reload.
	var labels strings.Builder
	for i := range allowedReviews / 2 {
		fmt.Fprintf(&labels, "---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: good-%03d, namespace: %s}}\n", i, ns)
	}
	if out, err := c.try("", "create", "configmap", "bad", "-n", ns); err == nil || !strings.Contains(out+err.Error(), "must not begin with bad") {
		t.Fatalf("%s, %v", out, err)
	}
	p.see("bad", "names must not begin with bad", "changed metadata.labels", "denied")
	c.apply(labels.String())
	p.see("good-059", "1–100 of 122")
	p.audit()
	p.click("Next")
	p.see("101–122 of 122", "names must not begin with bad")

	// A filter starts at the first page.
	p.click("Denied 1")
	p.at(controller)
	p.see("names must not begin with bad")
	p.notSeeIn("main table", "good-")
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.audit()
	p.resize(desktopWidth, desktopHeight)
	p.fill("User", "absent")
	p.see("No matches", "None of 122 reviews matches the filter.")
	p.audit()
	p.back()
	p.see("names must not begin with bad")
	p.clickIn("main table", "create")
	p.see("Creation denied", "ConfigMap bad", "system:masters", "names must not begin with bad: choose another one", "check of admissioncontroller.setpoint.dev/"+ns)
	p.audit()
	p.resize(phoneWidth, phoneHeight)
	p.audit()
	p.resize(desktopWidth, desktopHeight)
	p.click("Request")
	p.see(`"operation": "CREATE"`)

	// The object was never stored. Its page leads to its reviews.
	object := "/resources/configmaps/" + ns + "/bad"
	p.follow(object)
	p.at(object)
	p.see("Not stored: an admission webhook denied its creation", "Creation denied")
	p.audit()
	p.clickIn("#object", "admissioncontroller.setpoint.dev/"+ns)
	p.at(controller + "/reviews")
	p.see("Of ConfigMap bad only.", "mutated")
	p.notSeeIn("main table", "good-")
	p.audit()
	p.click("Show all")
	p.seeIn("main table", "good-")
}

const reviewManifest = `apiVersion: setpoint.dev/v1alpha1
kind: AdmissionController
metadata: {name: %[1]s}
spec:
  webhooks:
  - name: owner
    type: Mutate
    rules: [{apiVersion: v1, resource: configmaps, operations: [CREATE]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    matchConditions: [{name: users, expression: "request.userInfo.username != 'system:serviceaccount:kube-system:root-ca-cert-publisher'"}]
    webhook: {url: "%[2]s"}
  - name: check
    type: Validate
    rules: [{apiVersion: v1, resource: configmaps, operations: [CREATE]}]
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}
    webhook: {url: "%[2]s"}
`

//go:embed testdata/people.yaml
var peopleManifest string

// TestRights checks that RBAC decides what users see and do.
func TestRights(t *testing.T) {
	t.Parallel()
	c := bootCluster(t, "--cluster-only")
	c.apply(peopleManifest)
	// The first run installs the CRDs. The others run no controllers.
	anonymous := []string{"--selector", "team=nobody"}
	ui := c.run()
	c.established("compositecontrollers.setpoint.dev")
	c.kind("people.test", "Widget", hook(t, func(hookRequest) (int, any) { return http.StatusOK, map[string]any{"children": []any{}} }))
	for _, namespace := range []string{"people", "elsewhere"} {
		c.apply(fmt.Sprintf("{apiVersion: people.test/v1, kind: Widget, metadata: {name: in-%[1]s, namespace: %[1]s}, spec: {size: 3}}", namespace))
	}

	t.Run("who may write", func(t *testing.T) { mayWrite(t, c.on(t), ui) })
	t.Run("who may only read", func(t *testing.T) { mayOnlyRead(t, c.on(t), ui) })
	t.Run("who may see one namespace", func(t *testing.T) { maySeeOne(t, c.on(t), ui) })
	t.Run("who has no token", func(t *testing.T) { hasNoAccess(t, ui) })
	t.Run("who comes by a proxy", func(t *testing.T) {
		throughProxy(t, c.run(append(anonymous, "--dashboard-user-header", "X-Forwarded-User", "--dashboard-groups-header", "X-Forwarded-Groups")...))
	})
	t.Run("who pretends to be a proxy", func(t *testing.T) {
		forgedHeaders(t, c.run(append(anonymous, "--dashboard-user-header", "X-Forwarded-User", "--dashboard-trusted-proxies", "192.0.2.0/24")...))
	})
	t.Run("whose session ends", func(t *testing.T) {
		sessionEnds(t, c.on(t), c.run(append(anonymous, "--dashboard-session-lifetime", "8s")...))
	})
}

const widgetsPath = "/resources/widgets.people.test"

// on returns the same cluster for a subtest.
func (c *cluster) on(t *testing.T) *cluster {
	part := *c
	part.t = t
	return &part
}

// tokenOf returns a token of a user.
func (c *cluster) tokenOf(person string) string {
	c.t.Helper()
	return strings.TrimSpace(c.kubectl("create", "token", person, "-n", "people"))
}

// signIn signs in with a token.
func (p *page) signIn(token string) {
	p.t.Helper()
	p.see("Sign in")
	p.fill("Token", token)
	p.click("Sign in")
	p.notSee("Sign in to")
}

func mayWrite(t *testing.T, c *cluster, ui string) {
	p := newPage(t, ui)
	p.open(widgetsPath + "/people/in-people")
	p.audit()
	p.signIn(c.tokenOf("ada"))
	p.at(widgetsPath + "/people/in-people")
	p.follow(widgetsPath + "/people/in-people/edit")
	p.at(widgetsPath + "/people/in-people/edit")
	p.has("button", "Save")
	p.open(widgetsPath + "/new")
	p.has("button", "Create")
}

func mayOnlyRead(t *testing.T, c *cluster, ui string) {
	p := newPage(t, ui)
	p.open(widgetsPath)
	p.signIn(c.tokenOf("rita"))
	p.at(widgetsPath)
	p.see("in-people", "in-elsewhere")
	p.audit()

	// Forbidden actions are shown, with the reason.
	object := widgetsPath + "/people/in-people"
	p.follow(object)
	p.at(object)
	p.disabled("Edit")
	p.disabled("Delete")
	p.audit()

	// Requests without the page are rejected too.
	status, said := forge(t, ui, c.tokenOf("rita"), object+"/delete", url.Values{})
	if status != http.StatusForbidden || !strings.Contains(said, "delete") {
		t.Errorf("a delete that was forged: %d, %s", status, cut(said))
	}
	status, _ = forge(t, ui, c.tokenOf("rita"), widgetsPath+"/new", url.Values{
		"as": {"yaml"}, "do": {"save"}, "text": {"apiVersion: people.test/v1\nkind: Widget\nmetadata: {name: forged, namespace: people}"},
	})
	if status != http.StatusForbidden {
		t.Errorf("a create that was forged: %d", status)
	}
	mayNotChange(t, c, ui, object)
	if out := c.kubectl("get", "widgets.people.test", "-n", "people", "-o", "name"); strings.TrimSpace(out) != "widget.people.test/in-people" {
		t.Errorf("there are now: %s", out)
	}
}

// mayNotChange posts all forms of an object's pages that end in a write, also those of previews, which are dry runs of
// one. Each response says which right is missing, and the command that grants it.
func mayNotChange(t *testing.T, c *cluster, ui, object string) {
	before := c.kubectl("get", "widgets.people.test", "in-people", "-n", "people", "-o", "yaml")
	// Its controller may write the status meanwhile.
	written := func() string {
		return c.kubectl("get", "widgets.people.test", "in-people", "-n", "people", "-o", "jsonpath={.metadata.labels} {.metadata.annotations} {.spec}")
	}
	writtenBefore := written()
	edit := func(do string) url.Values {
		return url.Values{"as": {"yaml"}, "do": {do}, "base": {before}, "text": {strings.Replace(before, "size: 3", "size: 42", 1)}}
	}
	for what, request := range map[string]struct {
		path   string
		values url.Values
	}{
		"preview of an edit": {"/edit", edit("preview")},
		"save of an edit":    {"/edit", edit("save")},
		"save of a preview":  {"/edit", edit("save-previewed")},
		"reconcile":          {"/annotate", url.Values{"do": {"reconcile"}}},
		"pause":              {"/annotate", url.Values{"do": {"pause"}}},
	} {
		status, said := forge(t, ui, c.tokenOf("rita"), object+request.path, request.values)
		if status != http.StatusForbidden || !strings.Contains(said, "--verb=patch --resource=widgets.people.test -n people") {
			_, main, _ := strings.Cut(said, "<main")
			t.Errorf("%s: %d, %s", what, status, cut(main))
		}
	}
	if after := written(); after != writtenBefore {
		t.Errorf("the object has changed:\n%s\nbefore:\n%s", after, writtenBefore)
	}
}

// forge posts a form as the page would.
func forge(t *testing.T, ui, token, path string, values url.Values) (status int, said string) {
	t.Helper()
	jar := valueOf(cookiejar.New(nil))(t)
	client := &http.Client{Jar: jar}
	post := func(path string, values url.Values) (int, string) {
		t.Helper()
		response := valueOf(client.PostForm(ui+path, values))(t)
		defer response.Body.Close()
		body := valueOf(io.ReadAll(response.Body))(t)
		return response.StatusCode, string(body)
	}
	if status, said := post("/signin", url.Values{"token": {token}, "return": {"/resources"}}); status != http.StatusOK {
		t.Fatalf("sign in: %d: %s", status, cut(said))
	}
	return post(path, values)
}

func maySeeOne(t *testing.T, c *cluster, ui string) {
	p := newPage(t, ui)
	p.open(widgetsPath + "?namespace=people")
	p.signIn(c.tokenOf("ned"))
	p.see("in-people")
	p.notSee("in-elsewhere")
	// A complete namespace is opened, with the same filters.
	p.fill("Name", "in")
	p.at(widgetsPath + "?namespace=people&name=in")
	_ = must[any](p, `void document.querySelector("#namespace").select()`)
	p.do("begin to type", call(input.InsertText, input.InsertTextParams{Text: "peo"}))
	p.audit()
	p.at(widgetsPath + "?namespace=people&name=in")
	p.do("type the rest", call(input.InsertText, input.InsertTextParams{Text: "ple"}))
	p.press("Enter")
	p.at(widgetsPath + "?name=in&namespace=people")
	p.see("in-people")
	// A forbidden page names the missing permission and shows no content.
	p.errors.allow("status 403|status of 403")
	p.open(widgetsPath + "/elsewhere/in-elsewhere")
	p.see(`cannot get resource "widgets" in API group "people.test" in the namespace "elsewhere"`)
	p.audit()
	p.open(widgetsPath + "/elsewhere/not-there")
	p.see(`cannot get resource "widgets" in API group "people.test" in the namespace "elsewhere"`)
}

func hasNoAccess(t *testing.T, ui string) {
	p := newPage(t, ui)
	p.errors.allow("status 4|status of 4")
	p.open("/resources")
	p.fill("Token", "made-up")
	p.click("Sign in")
	p.see("does not accept")
	p.audit()
	p.open("/")
	p.see("Sign in")
	p.notSee("people.test")
}

// withHeaders sends the headers of a proxy.
func (p *page) withHeaders(headers map[string]any) {
	p.t.Helper()
	sent := network.Headers{}
	for name, value := range headers {
		sent[name] = value
	}
	p.do("send headers", call(network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: sent}))
}

func throughProxy(t *testing.T, ui string) {
	p := newPage(t, ui)
	p.withHeaders(map[string]any{"X-Forwarded-User": "olga"})
	p.open(widgetsPath)
	p.see("in-people", "olga")
	p.open(widgetsPath + "/new")
	p.see("Create")

	// A proxy cannot make anyone a member of system:masters.
	p = newPage(t, ui)
	p.errors.allow("status 403|status of 403")
	p.withHeaders(map[string]any{"X-Forwarded-User": "paul", "X-Forwarded-Groups": "system:masters"})
	p.open(widgetsPath)
	p.see(`cannot list resource "widgets" in API group "people.test" at the cluster scope`)
	p.notSee("in-people")
}

func forgedHeaders(t *testing.T, ui string) {
	p := newPage(t, ui)
	p.withHeaders(map[string]any{"X-Forwarded-User": "olga"})
	p.open(widgetsPath)
	p.see("Sign in")
	p.notSee("olga")
}

// sessionEnds lets a session expire on an open page: the page says so, and signing in returns
// to it.
func sessionEnds(t *testing.T, c *cluster, ui string) {
	p := newPage(t, ui)
	p.errors.allow("status 401|status of 401")
	path := widgetsPath + "/people/in-people"
	p.open(path)
	p.signIn(c.tokenOf("rita"))
	p.at(path)
	p.see("in-people")
	p.see("session has ended")
	p.signIn(c.tokenOf("rita"))
	p.at(path)
	p.see("in-people")
}
