package objects

import (
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/web"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

type runExport struct {
	// RunURL is the whole run, CaseURL its calls as cases of `setpoint test`; "" without calls.
	RunURL, CaseURL string
}

func exportOf(s *Object, run *inspect.Run) (all runExport) {
	in := "?" + url.Values{"in": {run.Process}}.Encode()
	below := func(name string) string { return s.URL("runs", strconv.FormatUint(run.ID, 10), name) + in }
	all.RunURL = below("file")
	if slices.ContainsFunc(run.Steps, func(step inspect.Step) bool {
		return step.Call != nil && !step.Call.Dropped && len(step.Call.Request) > 0
	}) {
		all.CaseURL = below("case")
	}
	return all
}

// downloadRun sends a run as JSON. Values of Secrets are masked.
func downloadRun(req *Request) error {
	return req.downloadFromRun(false, func(s *Object, run *inspect.Run) (string, []byte, error) {
		text, err := json.MarshalIndent(run, "", "  ")
		return fmt.Sprintf("%s-%d-run.json", s.Name, run.ID), append(text, '\n'), err
	})
}

// downloadCase sends the calls of a run as cases. Tokens stand for values of Secrets.
func downloadCase(req *Request) error {
	return req.downloadFromRun(true, func(s *Object, run *inspect.Run) (string, []byte, error) {
		text, err := inspect.Cases(run)
		if err != nil {
			err = web.NotFound("Run %d of %s %s cannot be a case: %v.", run.ID, s.Kind.Kind, s.Name, err)
		}
		return fmt.Sprintf("%s-%d.yaml", s.Name, run.ID), []byte(text), err
	})
}

func (req *Request) downloadFromRun(tokens bool, render func(*Object, *inspect.Run) (name string, text []byte, err error)) error {
	s, err := req.loadObject()
	if err != nil {
		return err
	}
	loader := req.NewLoader()
	loader.tokens = tokens
	run, err := req.findRun(loader, s, req.Path("id"))
	if err != nil {
		return err
	}
	name, text, err := render(s, &run)
	if err != nil {
		return err
	}
	// A file with unknown permissions would lack what the user may read.
	if err := req.AccessError(); err != nil {
		return err
	}
	header := req.W.Header()
	header.Set("Content-Type", "text/plain; charset=utf-8")
	header.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": strings.ReplaceAll(name, "/", "-")}))
	req.W.WriteHeader(http.StatusOK)
	_, _ = req.W.Write(text) // The client is gone.
	return nil
}
