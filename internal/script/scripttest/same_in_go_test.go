package scripttest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"sigs.k8s.io/yaml"
)

type (
	immortalRequest struct {
		Parent struct {
			Metadata struct{ Name string }
			Spec     struct{ Image string }
		}
		Children map[string]map[string]struct {
			Status struct{ Phase string }
		}
	}
	immortalResponse struct {
		Status struct {
			CurrentPod string `json:"currentPod"`
		} `json:"status"`
		Children []immortalPod `json:"children"`
	}
	immortalPod struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec immortalPodSpec `json:"spec"`
	}
	immortalPodSpec struct {
		RestartPolicy string              `json:"restartPolicy"`
		Containers    []immortalContainer `json:"containers"`
	}
	immortalContainer struct {
		Name  string `json:"name"`
		Image string `json:"image"`
	}
)

// syncImmortal is the hook of examples/immortalcontainer in Go.
func syncImmortal(request immortalRequest) immortalResponse {
	name := request.Parent.Metadata.Name + "-immortalpod"
	observed, exists := request.Children["Pod.v1"][name]
	response := immortalResponse{Children: []immortalPod{}}
	if exists && slices.Contains([]string{"Succeeded", "Failed"}, observed.Status.Phase) {
		return response
	}
	if exists {
		response.Status.CurrentPod = name
	}
	pod := immortalPod{APIVersion: "v1", Kind: "Pod", Spec: immortalPodSpec{
		RestartPolicy: "OnFailure", Containers: []immortalContainer{{"immortal", request.Parent.Spec.Image}},
	}}
	pod.Metadata.Name = name
	response.Children = append(response.Children, pod)
	return response
}

// TestSameResponseInGo compares the code of the one-file example with a hook in Go: the bytes are the
// same.
func TestSameResponseInGo(t *testing.T) {
	code := inlineSource(t, filepath.Join("..", "..", "..", "examples", "immortalcontainer", "inline.yaml"))
	requests, err := filepath.Glob(filepath.Join("testdata", "immortalcontainer", "requests", "*.json"))
	if err != nil || len(requests) == 0 {
		t.Fatalf("no requests: %v", err)
	}
	for _, path := range requests {
		text := read(t, path)
		var request immortalRequest
		must.Succeed(t, json.Unmarshal([]byte(text), &request))
		var response strings.Builder
		encoder := json.NewEncoder(&response)
		encoder.SetEscapeHTML(false)
		must.Succeed(t, encoder.Encode(syncImmortal(request)))
		want := strings.TrimSpace(response.String())
		if got := call(t, languages[0].load(t, code), text); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
}

// inlineSource returns the code of the sync hook in a file of manifests.
func inlineSource(t *testing.T, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path)).In(t)
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var controller struct {
			Spec struct {
				Hooks struct {
					Sync struct{ Inline struct{ Source string } }
				}
			}
		}
		must.Succeed(t, yaml.Unmarshal([]byte(document), &controller))
		if source := controller.Spec.Hooks.Sync.Inline.Source; source != "" {
			return source
		}
	}
	t.Fatalf("%s has no sync hook", path)
	return ""
}
