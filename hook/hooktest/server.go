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

// HTTPHook serves logic over HTTP in wire version V2. It uses encoding/json, and so
// checks the wire form independently of package hook.
func HTTPHook(logic hook.Hook, controllerType hook.ControllerType) http.Handler {
	return serve(func(r *http.Request) (any, error) {
		req, err := readRequest(r, controllerType)
		if err != nil {
			return nil, err
		}
		resp, err := logic.Call(r.Context(), req)
		if err != nil {
			return nil, err
		}
		return newWireResponse(resp, controllerType), nil
	})
}

// HTTPCustomizer is HTTPHook for customizers.
func HTTPCustomizer(logic hook.Customizer) http.Handler {
	return serve(func(r *http.Request) (any, error) {
		var req hook.CustomizeRequest
		if err := read(r, &req); err != nil {
			return nil, err
		}
		resp, err := logic.Customize(r.Context(), &req)
		if err != nil {
			return nil, err
		}
		return struct {
			RelatedResources []hook.RelatedRule `json:"relatedResources"`
		}{append([]hook.RelatedRule{}, resp.Related...)}, nil
	})
}

// serve writes the result of response, or its error.
func serve(response func(r *http.Request) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := response(r)
		if err != nil {
			writeError(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// The caller may have disconnected.
		_ = json.NewEncoder(w).Encode(body)
	})
}

type groups map[string]map[string]json.RawMessage

type wireRequest struct {
	Controller, Parent json.RawMessage
	Children, Related  groups
	Finalizing         *bool
}

// decoratorRequest is wireRequest in the words of a decorator.
type decoratorRequest struct {
	Controller json.RawMessage
	Parent     json.RawMessage `json:"object"`
	Children   groups          `json:"attachments"`
	Related    groups
	Finalizing *bool
}

func readRequest(r *http.Request, controllerType hook.ControllerType) (*hook.Request, error) {
	wire, err := readWire(r, controllerType)
	if err != nil {
		return nil, err
	}
	if wire.Children == nil || wire.Related == nil || wire.Finalizing == nil {
		return nil, errors.New("a field is missing")
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
		Related:         readGroups(wire.Related),
		Finalizing:      *wire.Finalizing,
	}, nil
}

func readWire(r *http.Request, controllerType hook.ControllerType) (wireRequest, error) {
	if controllerType == hook.Composite {
		var wire wireRequest
		err := read(r, &wire)
		return wire, err
	}
	var wire decoratorRequest
	err := read(r, &wire)
	return wireRequest(wire), err
}

// read takes no field that it does not know.
func read(r *http.Request, into any) error {
	if r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
		return fmt.Errorf("got %s of %q, want POST of JSON", r.Method, r.Header.Get("Content-Type"))
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	return nil
}

func namespaceOf(object json.RawMessage) (string, error) {
	var o struct{ Metadata struct{ Namespace string } }
	if err := json.Unmarshal(object, &o); err != nil {
		return "", fmt.Errorf("read parent: %w", err)
	}
	return o.Metadata.Namespace, nil
}

func readGroups(wire groups) []hook.Group {
	all := []hook.Group{}
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
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b hook.Group) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.APIVersion, b.APIVersion))
	})
	return all
}

// wireResponse has the fields that both controller types share.
type wireResponse struct {
	Status             json.RawMessage `json:"status"`
	ResyncAfterSeconds float64         `json:"resyncAfterSeconds,omitempty"`
	Finalized          bool            `json:"finalized,omitempty"`
	Message            string          `json:"message,omitempty"`
	Events             []wireEvent     `json:"events,omitempty"`
	Conditions         []wireCondition `json:"conditions,omitempty"`
}

type wireEvent struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

type wireCondition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

func newWireResponse(resp *hook.Response, controllerType hook.ControllerType) any {
	body := wireResponse{
		Status:             resp.Status,
		ResyncAfterSeconds: resp.ResyncAfter.Seconds(),
		Finalized:          resp.Finalized,
		Message:            resp.Message,
	}
	for _, e := range resp.Events {
		body.Events = append(body.Events, wireEvent(e))
	}
	for _, c := range resp.Conditions {
		body.Conditions = append(body.Conditions, wireCondition(c))
	}
	children := append([]json.RawMessage{}, resp.Children...)
	if controllerType == hook.Composite {
		return struct {
			wireResponse

			Children []json.RawMessage `json:"children"`
		}{body, children}
	}
	return struct {
		wireResponse

		Attachments []json.RawMessage  `json:"attachments"`
		Labels      map[string]*string `json:"labels,omitempty"`
		Annotations map[string]*string `json:"annotations,omitempty"`
	}{body, children, resp.Labels, resp.Annotations}
}

func writeError(w http.ResponseWriter, err error) {
	var later *hook.RetryAfterError
	var malformed *hook.MalformedError
	switch {
	case errors.As(err, &later):
		w.Header().Set("Retry-After", fmt.Sprintf("%.0f", later.After.Seconds()))
		http.Error(w, err.Error(), http.StatusTooManyRequests)
	case errors.As(err, &malformed):
		// A body as malformed as the error claims.
		_, _ = w.Write([]byte(`{"status":[` + malformed.Error()))
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
