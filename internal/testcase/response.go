package testcase

import (
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// fields are those of a response, as in the reference of its kind of hook. A field that has no effect is absent.
type fields map[string]any

// fieldsOf returns the fields of a response by its Go type.
func fieldsOf(response any) (fields, error) {
	text, err := json.Marshal(response)
	if err != nil {
		return nil, err
	}
	return object.Decode(text)
}

// syncResponse returns the fields of a response to sync or finalize. Children without a namespace are in that of
// the parent.
func syncResponse(r *hook.Response, children, namespace string) (fields, error) {
	all, err := fieldsOf(r)
	if err != nil {
		return nil, err
	}
	list, _ := all["children"].([]any)
	delete(all, "children")
	all[children] = append([]any{}, withoutNamespaces(list, namespace)...)
	all.addSeconds("resyncAfterSeconds", r.ResyncAfter)
	return all, nil
}

func handlerResponse(r *hook.HandlerResponse, namespace string) (fields, error) {
	all, err := fieldsOf(r)
	if err != nil {
		return nil, err
	}
	var applied []any
	for _, each := range r.Apply {
		o, err := object.Decode(each.Object)
		if err != nil {
			return nil, err
		}
		dropNamespace(o, namespace)
		if each.Unowned {
			o = map[string]any{"unowned": true, "object": o}
		}
		applied = append(applied, o)
	}
	if applied != nil {
		all["apply"] = applied
	}
	if after := r.RetryAfter; after == hook.Immediately {
		all["retryAfterSeconds"] = 0.001
	} else {
		all.addSeconds("retryAfterSeconds", after)
	}
	if r.NotApplicable {
		all["applicable"] = false
	}
	if r.NoSideEffects {
		all["sideEffects"] = false
	}
	if r.Err != nil {
		all[fieldError] = r.Err.Error()
	}
	return all, nil
}

func reviewResponse(r *hook.ReviewResponse) (fields, error) {
	all, err := fieldsOf(r)
	if err != nil {
		return nil, err
	}
	all["allowed"] = r.Denial == nil
	if r.Denial != nil {
		denial, err := fieldsOf(r.Denial)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, denial)
	}
	return all, nil
}

func (f fields) addSeconds(name string, d time.Duration) {
	if d > 0 {
		f[name] = d.Seconds()
	}
}

// withoutNamespaces removes the namespace of objects that are beside the parent, which is their default.
func withoutNamespaces(list []any, namespace string) []any {
	for _, each := range list {
		if o, is := each.(map[string]any); is {
			dropNamespace(o, namespace)
		}
	}
	return list
}

func dropNamespace(o map[string]any, namespace string) {
	if metadata, is := o["metadata"].(map[string]any); is && namespace != "" && metadata["namespace"] == namespace {
		delete(metadata, "namespace")
	}
}

// errorOf returns the error of the hook, if it is one.
func errorOf(err error) (string, bool) {
	failed, is := errors.AsType[*responseError](err)
	if !is {
		return "", false
	}
	return failed.Error(), true
}
