package objects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"mime"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// runExport is what a user can take away from a run.
type runExport struct {
	// RunURL is the whole run, CaseURL its calls as cases of `setpoint test`; "" without calls.
	RunURL, CaseURL string
	Calls           []callExport
}

// callExport is one call of a run.
type callExport struct {
	Name, RequestURL string
	// Curl is a command that makes the call again with the downloaded request; NoCurlReason is why
	// there is none. Notes say what the command needs.
	Curl, NoCurlReason string
	Notes              []string
	ID                 string
}

// exportOf returns the exports of a run.
func (req *Request) exportOf(p *RunPage) runExport {
	run := &p.Entry.Run
	in := "?" + url.Values{"in": {run.Process}}.Encode()
	below := func(name string) string { return p.URL("runs", strconv.FormatUint(run.ID, 10), name) + in }
	all := runExport{RunURL: below("file")}
	var hooks *hookURLs
	for i := range run.Steps {
		call := run.Steps[i].Call
		if call == nil || call.Dropped || len(call.Request) == 0 {
			continue
		}
		if hooks == nil {
			hooks = req.hookURLsOf(run)
		}
		all.CaseURL = below("case")
		one := callExport{Name: call.Name, ID: bodyID(run, i, "curl"), RequestURL: below("request") + "&step=" + strconv.Itoa(i)}
		one.setCurl(hooks, call, requestFile(p.Object, run, i))
		all.Calls = append(all.Calls, one)
	}
	return all
}

// setCurl sets the command that sends a file to the hook of a call.
func (e *callExport) setCurl(hooks *hookURLs, call *inspect.Call, file string) {
	to, known := hooks.of[call.Name]
	switch {
	case hooks.unknownReason != "":
		e.NoCurlReason = hooks.unknownReason
		return
	case !known || to.url() == "":
		e.NoCurlReason = "This is not a webhook, so there is no command to call it. Use the test case."
		return
	}
	e.Curl = "curl -sS -X POST -H 'Content-Type: application/json' --data-binary @" + userclient.ShellQuote(file) + " " +
		userclient.ShellQuote(to.url())
	if to.Service != nil {
		e.Notes = append(e.Notes, fmt.Sprintf("The Service is reachable in the cluster. From elsewhere, run kubectl port-forward -n %s "+
			"service/%s %d, and use localhost in the address.",
			to.Service.Namespace, to.Service.Name, to.port()))
	}
	if hooks.secured || to.secured() {
		e.Notes = append(e.Notes, "The spec of the hook has credentials or certificates, which the command lacks.")
	}
	if call.Version != "" {
		e.Notes = append(e.Notes, "The address is that of the present spec; the run called version "+call.Version+".")
	}
}

// webhookSpec is where a controller object, of any kind, says how to call a webhook.
type webhookSpec struct {
	URL, Path string
	Service   *struct {
		Name, Namespace, Protocol string
		Port                      int
	}
	CABundle, ClientTLS, Authorization, BasicAuth json.RawMessage
}

// secured reports whether the webhook has settings of its own for connections.
func (w *webhookSpec) secured() bool {
	return len(w.CABundle)+len(w.ClientTLS)+len(w.Authorization)+len(w.BasicAuth) > 0
}

// url returns the URL; "" for none. A password in it is masked. Other texts than web addresses could
// be options of a command.
func (w *webhookSpec) url() string {
	scheme, text := "", ""
	if w.Service != nil {
		scheme = cmp.Or(w.Service.Protocol, "http")
		text = scheme + "://" + net.JoinHostPort(w.Service.Name+"."+w.Service.Namespace, strconv.Itoa(w.port())) + w.Path
	} else if at, err := url.Parse(w.URL); err == nil {
		scheme, text = at.Scheme, at.Redacted()
	}
	if scheme != "http" && scheme != "https" {
		return ""
	}
	return text
}

// address returns the host and port that a call connects to; "" for none.
func (w *webhookSpec) address() string {
	at, err := url.Parse(w.url())
	if err != nil || at.Hostname() == "" {
		return ""
	}
	port := "80"
	if at.Scheme == "https" {
		port = "443"
	}
	return net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port))
}

func (w *webhookSpec) port() int {
	if w.Service.Port == 0 && w.Service.Protocol == "https" {
		return 443
	}
	return cmp.Or(w.Service.Port, 80)
}

// hookURLs are the webhooks of a controller by the name of their calls. unknownReason is why they
// are unknown; "" if they are known.
type hookURLs struct {
	of            map[string]*webhookSpec
	unknownReason string
	// secured reports settings of connections for several webhooks.
	secured bool
}

// declared reports whether an object declares the controller.
func (h *hookURLs) declared() bool { return h.of != nil || h.unknownReason != "" }

// hookURLsOf returns the webhooks of the controller of a run, which the user may have to be allowed
// to get.
func (req *Request) hookURLsOf(run *inspect.Run) *hookURLs {
	c := req.controllerOfRun(run)
	if c == nil || c.Declared == nil {
		return &hookURLs{}
	}
	kind, err := req.API.Kind(req.Context(), c.Declared.Resource())
	var raw json.RawMessage
	if err == nil {
		raw, err = req.API.Get(req.Context(), kind, c.Declared.Namespace, c.Declared.Name)
	}
	if err != nil {
		return &hookURLs{unknownReason: "The address of the hook is in the controller, which cannot be read: " + err.Error() + "."}
	}
	return parseHookURLs(raw)
}

// controllerOfRun returns the controller of a run; nil if the user may not see it.
func (req *Request) controllerOfRun(run *inspect.Run) *inspect.Controller {
	source, err := req.Source(run.Process)
	if err != nil {
		return nil
	}
	all, err := req.Processes.Controllers(req.Context(), source)
	if err != nil {
		return nil
	}
	at := slices.IndexFunc(all, func(c inspect.Controller) bool { return c.Name == run.Controller && req.CanSee(&c) })
	if at < 0 {
		return nil
	}
	return &all[at]
}

// parseHookURLs reads the webhooks of a controller object.
func parseHookURLs(raw json.RawMessage) *hookURLs {
	type named struct {
		Name    string
		Webhook *webhookSpec
	}
	var declared struct {
		Spec struct {
			Hooks              map[string]named
			Handlers, Webhooks []named
			EndpointConfigs    []json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &declared); err != nil {
		return &hookURLs{unknownReason: "The address of the hook is unknown."}
	}
	found := &hookURLs{of: map[string]*webhookSpec{}, secured: len(declared.Spec.EndpointConfigs) > 0}
	for name, each := range declared.Spec.Hooks {
		found.add(name, each.Webhook)
	}
	for _, each := range slices.Concat(declared.Spec.Handlers, declared.Spec.Webhooks) {
		found.add(each.Name, each.Webhook)
	}
	return found
}

func (h *hookURLs) add(name string, w *webhookSpec) {
	if w != nil {
		h.of[name] = w
	}
}

// requestFile is the name of the file with the request of a step.
func requestFile(s *Object, run *inspect.Run, step int) string {
	return fmt.Sprintf("%s-%d-%d.json", s.Name, run.ID, step)
}

// downloadRun sends a run as JSON. Values of Secrets are masked.
func downloadRun(req *Request) error {
	return req.downloadFromRun(func(s *Object, run *inspect.Run) (string, []byte, error) {
		text, err := json.MarshalIndent(run, "", "  ")
		return fmt.Sprintf("%s-%d-run.json", s.Name, run.ID), append(text, '\n'), err
	})
}

// downloadRequest sends the request of a call as JSON. Values of Secrets are masked.
func downloadRequest(req *Request) error {
	return req.downloadFromRun(func(s *Object, run *inspect.Run) (string, []byte, error) {
		i, err := strconv.Atoi(req.Query("step"))
		if err != nil || i < 0 || i >= len(run.Steps) || run.Steps[i].Call == nil {
			return "", nil, web.NotFound("Run %d has no call in step %q.", run.ID, req.Query("step"))
		}
		text := run.Steps[i].Call.Request
		if len(text) == 0 {
			return "", nil, web.NotFound("The request of run %d is no longer in memory.", run.ID)
		}
		return requestFile(s, run, i), text, nil
	})
}

func (req *Request) downloadFromRun(render func(*Object, *inspect.Run) (name string, text []byte, err error)) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	run, err := req.runFromURL(req.NewLoader(), s)
	if err != nil {
		return err
	}
	name, text, err := render(s, &run)
	if err != nil {
		return err
	}
	return req.sendFile(name, "application/json", text)
}

// sendFile sends a file to save.
func (req *Request) sendFile(name, mediaType string, text []byte) error {
	// A page with unknown permissions would lack what the user may read.
	if err := req.AccessError(); err != nil {
		return err
	}
	header := req.W.Header()
	header.Set("Content-Type", mediaType+"; charset=utf-8")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": strings.ReplaceAll(name, "/", "-")}))
	req.W.WriteHeader(http.StatusOK)
	_, _ = req.W.Write(text) // The client is gone.
	return nil
}
