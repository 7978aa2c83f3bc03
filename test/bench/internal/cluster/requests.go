package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/test/bench/internal/promtext"
)

// The API server counts requests by flow schema, and a flow schema may select
// by user, verb and resource. So one flow schema per kind of request, all for
// the contenders' identity and all at the priority level that administrators
// have, gives an exact count of what contenders asked for, without a log to
// write, a proxy in between, or a guess at what the load generator did.
const (
	requestMetric = "apiserver_flowcontrol_dispatched_requests_total"
	flowPrefix    = "bench-"
)

// Requests is a number of requests by what they are.
type Requests map[string]float64

// The kinds of request that are counted separately.
const (
	Create = "create"
	Update = "update" // PUT and PATCH, server-side apply too
	Status = "status" // any write of a parent's status
	Parent = "parent" // any write of the rest of a parent
	Delete = "delete"
	Read   = "read" // get and list, a streaming list not among them
	Watch  = "watch"
	Own    = "own"   // about controller objects and definitions of kinds
	Event  = "event" // any write of an event
	Other  = "other" // leases, discovery, access reviews
)

// Kinds are all of them, in the order of a report.
func Kinds() []string {
	return []string{Create, Update, Status, Parent, Delete, Read, Watch, Own, Event, Other}
}

// flow is one kind of request: the first that matches counts it.
type flow struct {
	kind             string
	verbs, resources []string
}

// flows tell the kinds of request apart; parents is the resource that contenders
// reconcile.
func flows(parents string) []flow {
	all := []string{"*"}
	return []flow{
		{Event, all, []string{"events"}},
		{Other, all, []string{"leases",
			"selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews"}},
		{Own, all, []string{"compositecontrollers", "compositecontrollers/status",
			"handlercontrollers", "handlercontrollers/status",
			"customresourcedefinitions", "customresourcedefinitions/status"}},
		{Status, []string{"update", "patch"}, []string{parents + "/status"}},
		{Parent, []string{"update", "patch"}, []string{parents}},
		{Create, []string{"create"}, all},
		{Update, []string{"update", "patch"}, all},
		{Delete, []string{"delete", "deletecollection"}, all},
		{Read, []string{"get", "list"}, all},
		{Watch, []string{"watch"}, all},
	}
}

// InstallCounters creates the flow schemas and waits until they count. Parents is
// the resource that contenders reconcile.
func InstallCounters(ctx context.Context, admin, contender *Client, parents string) error {
	for i, flow := range flows(parents) {
		object, err := flowSchema(flow, 100+i)
		if err != nil {
			return err
		}
		path := "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/" + flowPrefix + flow.kind
		if err := admin.Apply(ctx, path, object); err != nil {
			return err
		}
	}
	return waitCounting(ctx, admin, contender)
}

// waitCounting asks as the contender until its questions are counted.
func waitCounting(ctx context.Context, admin, contender *Client) error {
	return Poll(ctx, "the API server to count the contenders' requests", func() (bool, error) {
		before, err := Count(ctx, admin)
		if err != nil {
			return false, err
		}
		if _, err := contender.Get(ctx, accountPath); err != nil {
			return false, err
		}
		after, err := Count(ctx, admin)
		return after[Read] > before[Read], err
	})
}

func flowSchema(f flow, precedence int) ([]byte, error) {
	type object = map[string]any
	rule := object{
		"subjects": []object{{"kind": "ServiceAccount", "serviceAccount": object{
			"name": accountName, "namespace": systemNamespace}}},
		"resourceRules": []object{{"verbs": f.verbs, "resources": f.resources,
			"apiGroups": []string{"*"}, "clusterScope": true, "namespaces": []string{"*"}}},
	}
	if f.kind == Other {
		rule["nonResourceRules"] = []object{{"verbs": []string{"*"}, "nonResourceURLs": []string{"*"}}}
	}
	body, err := json.Marshal(object{
		"apiVersion": "flowcontrol.apiserver.k8s.io/v1",
		"kind":       "FlowSchema",
		"metadata":   object{"name": flowPrefix + f.kind},
		"spec": object{
			"priorityLevelConfiguration": object{"name": "exempt"},
			"matchingPrecedence":         precedence,
			"rules":                      []object{rule},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("flow schema for %s: %w", f.kind, err)
	}
	return body, nil
}

// Count reads how many requests contenders have made since the API server
// started.
func Count(ctx context.Context, admin *Client) (Requests, error) {
	metrics, err := admin.Get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	sums, err := promtext.SumBy(bytes.NewReader(metrics), requestMetric, "flow_schema")
	if err != nil {
		return nil, fmt.Errorf("count requests: %w", err)
	}
	requests := Requests{}
	for name, sum := range sums {
		if kind, ours := strings.CutPrefix(name, flowPrefix); ours {
			requests[kind] = sum
		}
	}
	return requests, nil
}

// Sub returns what was added since before.
func (r Requests) Sub(before Requests) Requests {
	added := Requests{}
	for kind, count := range r {
		added[kind] = count - before[kind]
	}
	return added
}

// Total adds up all kinds.
func (r Requests) Total() float64 {
	total := 0.0
	for _, count := range r {
		total += count
	}
	return total
}
