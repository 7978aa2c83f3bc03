package scripttest

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/must"
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

// TestSameResponseAsTheWebhook compares hooks with the Python of the example that they were written
// after: the bytes are the same.
func TestSameResponseAsTheWebhook(t *testing.T) {
	for example, module := range map[string]string{"immortalcontainer": "sync", "rolling-set": "hook"} {
		requests, err := filepath.Glob(filepath.Join("testdata", example, "requests", "*.json"))
		if err != nil || len(requests) == 0 {
			t.Fatalf("no requests for %s: %v", example, err)
		}
		for _, path := range requests {
			request := read(t, path)
			want := fromPython(t, filepath.Join("..", "..", "..", "examples", example), module, request)
			for _, l := range languages {
				p := l.load(t, read(t, filepath.Join("testdata", example, "sync"+l.ending)))
				if got := call(t, p, request); got != want {
					t.Errorf("%s in %s: got\n%s\nwant\n%s", path, l.name, got, want)
				}
			}
		}
	}
}

func fromPython(t *testing.T, dir, module, request string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", "-c", "import json, sys, "+module+" as m; print(json.dumps(m.sync(json.load(sys.stdin)), ensure_ascii=False))")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdin = bytes.NewBufferString(request)
	response := must.Get(cmd.Output()).In(t)
	var compact bytes.Buffer
	must.Succeed(t, json.Compact(&compact, response))
	return compact.String()
}

func read(t testing.TB, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path)).In(t)
	return string(text)
}
