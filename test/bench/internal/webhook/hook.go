package webhook

import (
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// syncRequest is the part of a sync request that the response depends on.
type syncRequest struct {
	Parent struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
		Spec thing.Spec `json:"spec"`
	} `json:"parent"`
	Children shown `json:"children"`
	Related  shown `json:"related"`
}

// shown are the objects beside a parent.
type shown struct {
	ConfigMaps map[string]configMap `json:"ConfigMap.v1"`
}

type syncResponse struct {
	Status   thing.Status `json:"status"`
	Children []configMap  `json:"children"`
}

type configMap struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   metadata          `json:"metadata"`
	Data       map[string]string `json:"data"`
}

type metadata struct {
	Name string `json:"name"`
}

// relation names the objects that the parent reads.
type relation struct {
	Related []rule `json:"relatedResources"`
}

type rule struct {
	APIVersion string   `json:"apiVersion"`
	Resource   string   `json:"resource"`
	Namespace  string   `json:"namespace"`
	Names      []string `json:"names"`
}

type hook struct {
	recorder *probe.Recorder
}

func (h *hook) serveSync(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	var request syncRequest
	body, err := read(req, &request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.record(&request, body, at)
	writeJSON(w, decide(&request))
}

func (h *hook) record(request *syncRequest, body []byte, at time.Time) {
	name := request.Parent.Metadata.Name
	h.recorder.Entered(name, request.Parent.Spec.Value, at)
	h.recorder.SetBody(body)
	for _, shared := range request.Related.ConfigMaps {
		h.recorder.Shown(name, shared.Data[thing.ValueKey], at)
	}
}

func (h *hook) serveCustomize(w http.ResponseWriter, req *http.Request) {
	var request syncRequest
	if _, err := read(req, &request); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.recorder.Customized()
	writeJSON(w, relate(&request))
}

func read(req *http.Request, into *syncRequest) ([]byte, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	return body, json.Unmarshal(body, into)
}

func writeJSON(w http.ResponseWriter, response any) {
	body, err := json.Marshal(response)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// relate wants to be shown the ConfigMap that the parent names.
func relate(request *syncRequest) relation {
	if request.Parent.Spec.Shared == "" {
		return relation{Related: []rule{}}
	}
	return relation{Related: []rule{{
		APIVersion: "v1",
		Resource:   "configmaps",
		Namespace:  request.Parent.Metadata.Namespace,
		Names:      []string{request.Parent.Spec.Shared},
	}}}
}

// decide wants every child with the parent's value, and counts as ready those
// observed with it.
func decide(request *syncRequest) syncResponse {
	spec := request.Parent.Spec
	out := syncResponse{
		Status:   thing.Status{Value: spec.Value},
		Children: make([]configMap, spec.Children),
	}
	for _, observed := range request.Children.ConfigMaps {
		if observed.Data[thing.ValueKey] == spec.Value {
			out.Status.Ready++
		}
	}
	for j := range out.Children {
		name := thing.ChildName(request.Parent.Metadata.Name, j)
		out.Children[j] = configMap{
			APIVersion: "v1",
			Kind:       "ConfigMap",
			Metadata:   metadata{Name: name},
			Data:       spec.Data(name),
		}
	}
	return out
}
