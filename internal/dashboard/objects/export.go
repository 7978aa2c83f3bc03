package objects

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
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
func (req *Request) exportOf(s *Object, run *inspect.Run) runExport {
	in := "?" + url.Values{"in": {run.Process}}.Encode()
	below := func(name string) string { return s.URL("runs", strconv.FormatUint(run.ID, 10), name) + in }
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
		one.setCurl(hooks, call, requestFile(s, run, i))
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

// downloadCase sends the calls of a run as cases. Tokens stand for values of Secrets.
func downloadCase(req *Request) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	loader := req.NewLoader()
	loader.tokens = true
	run, err := req.runFromURL(loader, s)
	if err != nil {
		return err
	}
	text, err := run.Cases()
	if err != nil {
		return web.NotFound("Run %d of %s %s cannot be a case: %v.", run.ID, s.Kind.Kind, s.Name, err)
	}
	return req.sendFile(s.Name+"-"+strconv.FormatUint(run.ID, 10)+".yaml", "application/yaml", []byte(text))
}
