package hooktest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
)

// Handler serves logic over HTTP the way a hook of any language would, in wire
// version V2. It reads and writes with encoding/json and so is a second opinion
// on the wire form.
func Handler(logic hook.Hook) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req, err := readRequest(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		resp, err := logic.Call(r.Context(), req)
		if err != nil {
			writeError(w, err)
			return
		}
		writeResponse(w, resp)
	})
}

type wireRequest struct {
	Controller, Parent json.RawMessage
	Children, Related  map[string]map[string]json.RawMessage
	Finalizing         bool
}

func readRequest(r *http.Request) (*hook.Request, error) {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return nil, fmt.Errorf("got %s of %q, want POST of JSON", r.Method, r.Header.Get("Content-Type"))
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	var wire wireRequest
	if err := decoder.Decode(&wire); err != nil {
		return nil, fmt.Errorf("read request: %w", err)
	}
	if wire.Related == nil {
		return nil, errors.New("related is missing")
	}
	namespace, err := namespaceOf(wire.Parent)
	if err != nil {
		return nil, err
	}
	return &hook.Request{
		Controller:      wire.Controller,
		Parent:          wire.Parent,
		ParentNamespace: namespace,
		Children:        readGroups(wire.Children),
		Finalizing:      wire.Finalizing,
	}, nil
}

func namespaceOf(object json.RawMessage) (string, error) {
	var o struct{ Metadata struct{ Namespace string } }
	if err := json.Unmarshal(object, &o); err != nil {
		return "", fmt.Errorf("read parent: %w", err)
	}
	return o.Metadata.Namespace, nil
}

func readGroups(wire map[string]map[string]json.RawMessage) []hook.Group {
	groups := []hook.Group{}
	for key, objects := range wire {
		kind, apiVersion, _ := strings.Cut(key, ".")
		g := hook.Group{Kind: kind, APIVersion: apiVersion}
		for name, object := range objects {
			namespace, bare, qualified := strings.Cut(name, "/")
			if !qualified {
				namespace, bare = "", name
			}
			g.Objects = append(g.Objects, hook.Entry{Namespace: namespace, Name: bare, Object: object})
		}
		slices.SortFunc(g.Objects, func(a, b hook.Entry) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
		})
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b hook.Group) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	return groups
}

func writeResponse(w http.ResponseWriter, resp *hook.Response) {
	wire := struct {
		Status             json.RawMessage   `json:"status"`
		Children           []json.RawMessage `json:"children"`
		ResyncAfterSeconds float64           `json:"resyncAfterSeconds,omitempty"`
		Finalized          bool              `json:"finalized,omitempty"`
	}{
		Status:             resp.Status,
		Children:           append([]json.RawMessage{}, resp.Children...),
		ResyncAfterSeconds: resp.ResyncAfter.Seconds(),
		Finalized:          resp.Finalized,
	}
	w.Header().Set("Content-Type", "application/json")
	// The caller may have gone; there is nobody else to tell.
	_ = json.NewEncoder(w).Encode(wire)
}

func writeError(w http.ResponseWriter, err error) {
	var later *hook.RetryAfterError
	var malformed *hook.MalformedError
	switch {
	case errors.As(err, &later):
		w.Header().Set("Retry-After", fmt.Sprintf("%.0f", later.After.Seconds()))
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case errors.As(err, &malformed):
		// An answer as wrong as the logic says it is.
		_, _ = w.Write([]byte(`{"children":[` + malformed.Error()))
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
