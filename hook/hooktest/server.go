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
		return hook.CustomizeResponse{Related: append([]hook.RelatedRule{}, resp.Related...)}, nil
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
	var wire wireRequest
	into := any(&wire)
	if controllerType == hook.Decorator {
		into = (*decoratorRequest)(&wire)
	}
	if err := read(r, into); err != nil {
		return nil, err
	}
	if wire.Children == nil || wire.Related == nil || wire.Finalizing == nil {
		return nil, errors.New("a field is missing")
	}
	namespace, _, err := nameOf(wire.Parent)
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

func nameOf(object json.RawMessage) (namespace, name string, err error) {
	var o struct {
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return "", "", fmt.Errorf("read object: %w", err)
	}
	return o.Metadata.Namespace, o.Metadata.Name, nil
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

// wireResponse adds what a Response has no JSON for. Its lists are those of both
// controller types, of which one is set.
type wireResponse struct {
	*hook.Response

	ResyncAfterSeconds float64            `json:"resyncAfterSeconds,omitempty"`
	Children           *[]json.RawMessage `json:"children,omitempty"`
	Attachments        *[]json.RawMessage `json:"attachments,omitempty"`
}

func newWireResponse(resp *hook.Response, controllerType hook.ControllerType) wireResponse {
	body := wireResponse{Response: resp, ResyncAfterSeconds: resp.ResyncAfter.Seconds()}
	children := append([]json.RawMessage{}, resp.Children...)
	if controllerType == hook.Composite {
		body.Children = &children
	} else {
		body.Attachments = &children
	}
	return body
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
