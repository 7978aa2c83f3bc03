package dashboard

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

func TestExports(t *testing.T) {
	_, s, _ := newIncidentServer(t)
	page := get(t, s, objectPath+"/runs/1?in=setpoint").Body.String()
	wantTexts(t, page, "Export", objectPath+"/runs/1/file?in=setpoint", objectPath+"/runs/1/case?in=setpoint", objectPath+"/runs/1/request?in=setpoint&amp;step=0", "Values of Secrets are masked")
	for path, want := range map[string]string{"file?in=setpoint": `"outcome": "synced"`, "request?in=setpoint&step=0": `"size":"3"`} {
		w := get(t, s, objectPath+"/runs/1/"+path)
		if !strings.Contains(w.Body.String(), want) || !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Header().Get("Content-Disposition"), "attachment; filename=a-1-") {
			t.Errorf("%s has %v: %s", path, w.Header(), w.Body)
		}
	}
	for _, path := range []string{"request?in=setpoint&step=1", "request?in=setpoint&step=x", "request?in=setpoint"} {
		if w := get(t, s, objectPath+"/runs/1/"+path); w.Code != http.StatusNotFound {
			t.Errorf("%s has status %d", path, w.Code)
		}
	}
}

func TestCurl(t *testing.T) {
	const prefix = "curl -sS -X POST -H 'Content-Type: application/json' --data-binary @'it'\\''s.json' "
	for name, c := range map[string]struct {
		spec, call, curl, note string
	}{
		"URL":                 {`{"hooks":{"sync":{"webhook":{"url":"http://localhost:8080/a b?c=d&e"}}}}`, "sync", prefix + "'http://localhost:8080/a%20b?c=d&e'", ""},
		"password":            {`{"hooks":{"sync":{"webhook":{"url":"http://ann:hunter2@hooks"}}}}`, "sync", prefix + "http://ann:xxxxx@hooks", ""},
		"Service":             {`{"hooks":{"sync":{"webhook":{"service":{"name":"hooks","namespace":"shop"},"path":"/sync"}}}}`, "sync", prefix + "http://hooks.shop:80/sync", "port-forward -n shop service/hooks 80"},
		"Service by HTTPS":    {`{"hooks":{"sync":{"webhook":{"service":{"name":"hooks","namespace":"shop","protocol":"https"},"path":"/sync"}}}}`, "sync", prefix + "https://hooks.shop:443/sync", ""},
		"handler":             {`{"handlers":[{"name":"review","webhook":{"url":"http://a","basicAuth":{}}}]}`, "review", prefix + "http://a", "credentials"},
		"endpoints":           {`{"hooks":{"sync":{"webhook":{"url":"http://a"}}},"endpointConfigs":[{}]}`, "sync", prefix + "http://a", "credentials"},
		"inline":              {`{"hooks":{"sync":{"inline":{"javascript":"x"}}}}`, "sync", "", "not a webhook"},
		"another hook":        {`{"hooks":{"sync":{"webhook":{"url":"http://a"}}}}`, "finalize", "", "not a webhook"},
		"option":              {`{"hooks":{"sync":{"webhook":{"url":"-o/tmp/a"}}}}`, "sync", "", "not a webhook"},
		"option of a Service": {`{"hooks":{"sync":{"webhook":{"service":{"name":"a","namespace":"b","protocol":"-K"}}}}}`, "sync", "", "not a webhook"},
		"malformed":           {`[]`, "sync", "", "address of the hook is unknown"},
	} {
		var got callExport
		got.setCurl(parseHookURLs(json.RawMessage(`{"spec":`+c.spec+`}`)), &inspect.Call{Name: c.call}, "it's.json")
		if got.Curl != c.curl || !strings.Contains(strings.Join(append(got.Notes, got.NoCurlReason), " "), c.note) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestExportOfDroppedCalls(t *testing.T) {
	_, s, source := newIncidentServer(t)
	source.runs[2].Steps[0].Call = &inspect.Call{Name: "sync", Dropped: true}
	page := get(t, s, objectPath+"/runs/1?in=setpoint").Body.String()
	if strings.Contains(page, "Test case") || !strings.Contains(page, "Run (JSON)") {
		t.Errorf("the page is %s", page)
	}
	if w := get(t, s, objectPath+"/runs/1/request?in=setpoint&step=0"); w.Code != http.StatusNotFound {
		t.Errorf("status %d", w.Code)
	}
}

func TestAddressOfWebhook(t *testing.T) {
	for spec, want := range map[string]string{
		`{"url":"http://hooks.shop/sync"}`:                        "hooks.shop:80",
		`{"url":"https://ann:pw@hooks.shop"}`:                     "hooks.shop:443",
		`{"url":"http://[::1]:8080/"}`:                            "[::1]:8080",
		`{"service":{"name":"hooks","namespace":"shop"}}`:         "hooks.shop:80",
		`{"service":{"name":"h","namespace":"shop","port":8080}}`: "h.shop:8080",
		`{"url":"%"}`: "",
		`{}`:          "",
	} {
		found := parseHookURLs(json.RawMessage(`{"spec":{"hooks":{"sync":{"webhook":` + spec + `}}}}`))
		if got := found.of["sync"].address(); got != want {
			t.Errorf("%s is at %q, want %q", spec, got, want)
		}
	}
}
