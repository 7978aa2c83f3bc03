package webhook

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/test/bench/internal/probe"
	"github.com/setpoint-dev/setpoint/test/bench/internal/thing"
)

// question is the part of a sync request that the answer depends on.
type question struct {
	Parent struct {
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec thing.Spec `json:"spec"`
	} `json:"parent"`
	Children struct {
		ConfigMaps map[string]configMap `json:"ConfigMap.v1"`
	} `json:"children"`
}

type answer struct {
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

type hook struct {
	recorder *probe.Recorder
}

func (h *hook) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	at := time.Now()
	var asked question
	if err := json.NewDecoder(req.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.recorder.Entered(asked.Parent.Spec.Value, at)
	body, err := json.Marshal(decide(&asked))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// decide wants every child with the parent's value, and counts as ready those
// observed with it.
func decide(asked *question) answer {
	spec := asked.Parent.Spec
	out := answer{
		Status:   thing.Status{Value: spec.Value},
		Children: make([]configMap, spec.Children),
	}
	for _, observed := range asked.Children.ConfigMaps {
		if observed.Data[thing.ValueKey] == spec.Value {
			out.Status.Ready++
		}
	}
	for j := range out.Children {
		out.Children[j] = configMap{
			APIVersion: "v1",
			Kind:       "ConfigMap",
			Metadata:   metadata{Name: thing.ChildName(asked.Parent.Metadata.Name, j)},
			Data:       map[string]string{thing.ValueKey: spec.Value},
		}
	}
	return out
}
