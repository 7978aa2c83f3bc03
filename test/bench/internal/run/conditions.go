package run

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// conditions are the facts a reader needs to judge the numbers.
func (r *runner) conditions(ctx context.Context) ([]string, error) {
	body, err := r.admin.Get(ctx, "/version")
	if err != nil {
		return nil, err
	}
	var server struct {
		GitVersion string `json:"gitVersion"`
	}
	if err := json.Unmarshal(body, &server); err != nil {
		return nil, fmt.Errorf("read the server's version: %w", err)
	}
	facts := []string{
		fmt.Sprintf("%d processors for everything: control plane, load generator, hook and contender; %s/%s, %s, Kubernetes %s",
			runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), server.GitVersion),
		fmt.Sprintf("%s, %s; %d at once; %s",
			rounds(r.options.rounds), strings.Join(r.options.contenders, " before "), r.options.Workers,
			"requests, calls and CPU are per parent unless a title says otherwise"),
		fmt.Sprintf("× compares with %s in this run; took %s", r.report.Baseline, time.Since(r.since).Round(time.Second)),
	}
	if r.options.smoke {
		facts = append(facts, "sizes are tiny: this says that everything works, and the numbers mean nothing")
	}
	return facts, nil
}

func rounds(n int) string {
	if n == 1 {
		return "one round"
	}
	return fmt.Sprintf("medians of %d rounds, every other in reverse order", n)
}
